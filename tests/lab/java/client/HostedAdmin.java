import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.common.config.ConfigResource;

/** An admin client that asks the cluster what it is told to ask. */
final class HostedAdmin extends Hosted {
    private final AdminClient admin;
    private volatile boolean closed;

    HostedAdmin(String name, Properties properties) {
        super(name, "admin", properties);
        admin = AdminClient.create(properties);
    }

    /** {@code cluster} and {@code topics} go to any node, {@code configs} to each broker named. */
    List<String> ask(Request request) throws Exception {
        List<String> answer = new ArrayList<>();
        String question = request.text("what", "cluster");
        if (question.equals("topics")) {
            answer.addAll(admin.listTopics().names().get());
        } else if (question.equals("configs")) {
            List<ConfigResource> brokers = new ArrayList<>();
            for (String id : request.list("brokers")) {
                brokers.add(new ConfigResource(ConfigResource.Type.BROKER, id));
            }
            admin.describeConfigs(brokers).all().get().keySet().forEach(r -> answer.add(r.name()));
        } else {
            admin.describeCluster().nodes().get().forEach(node -> answer.add(node.idString()));
        }
        Collections.sort(answer);
        return answer;
    }

    @Override
    Map<Integer, Object> instances() {
        return closed ? Collections.emptyMap() : Collections.singletonMap(0, admin);
    }

    @Override
    void stop() {}

    @Override
    void close(long timeoutMillis) throws Exception {
        closed = true;
        closeWithin(admin, timeoutMillis);
    }
}
