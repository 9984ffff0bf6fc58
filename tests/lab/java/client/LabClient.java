import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import org.apache.kafka.clients.CommonClientConfigs;

/**
 * Hosts Kafka clients and does with them what it is told, a command a line on standard input, an
 * answer a line of JSON on standard output.
 *
 * <p>Commands run side by side, so that the truth can be asked for while another one waits for a
 * broker. The end of standard input ends the process: it cannot outlive the lab.
 */
public final class LabClient {
    private final Map<String, Hosted> hosted = new ConcurrentSkipListMap<>();
    private final ExecutorService commands = Executors.newCachedThreadPool();
    private final PrintStream answers;
    private final Consumer<Object> onOpened;

    private LabClient(PrintStream answers, Consumer<Object> onOpened) {
        this.answers = answers;
        this.onOpened = onOpened;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what libraries print must not mix with answers
        new LabClient(answers, listener(arguments)).serve();
    }

    /** With a port, the Micrometer variant is on the class path and publishes every client. */
    @SuppressWarnings("unchecked")
    private static Consumer<Object> listener(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            return client -> {};
        }
        Class<?> page = Class.forName("MicrometerPage");
        return (Consumer<Object>) page.getConstructor(String.class).newInstance(arguments[0]);
    }

    private void serve() throws Exception {
        answer("ready", Collections.singletonMap("version", libraryVersion()), null);
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Request request = new Request(line);
            commands.execute(() -> obey(request));
        }
        Runtime.getRuntime().halt(0);
    }

    /** From the jar itself: the class that knows it has moved between generations. */
    private static String libraryVersion() throws IOException {
        Properties version = new Properties();
        try (InputStream text =
                CommonClientConfigs.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            version.load(text);
        }
        return version.getProperty("version");
    }

    private void obey(Request request) {
        try {
            answer(request.id, execute(request), null);
        } catch (Throwable error) {
            error.printStackTrace();
            answer(request.id, null, error.toString());
        }
    }

    private synchronized void answer(String id, Object result, String error) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", id);
        answer.put("result", result);
        answer.put("error", error);
        answers.println(Json.write(answer));
        answers.flush();
    }

    private Object execute(Request request) throws Exception {
        switch (request.verb) {
            case "create":
                return create(request);
            case "init":
                find(request, HostedProducer.class).initTransactions();
                return true;
            case "send":
                return send(request);
            case "leak":
                find(request, HostedProducer.class)
                        .leak(request.number("count", 1))
                        .forEach(onOpened);
                return true;
            case "poll":
                find(request, HostedConsumer.class).poll(request.flag("on", true));
                return true;
            case "ask":
                return find(request, HostedAdmin.class).ask(request);
            case "stop":
                find(request, Hosted.class).stop();
                return true;
            case "close":
                return close(request);
            case "status":
                return find(request, Hosted.class).status();
            case "truth":
                return truth();
            default:
                throw new IllegalArgumentException("unknown command " + request.verb);
        }
    }

    private Object create(Request request) {
        String name = request.text("name");
        if (hosted.containsKey(name)) {
            throw new IllegalArgumentException(name + " exists");
        }
        Hosted made = make(name, request);
        hosted.put(name, made);
        made.instances().values().forEach(onOpened);
        return true;
    }

    private static Hosted make(String name, Request request) {
        Properties properties = request.properties();
        switch (request.text("kind")) {
            case "producer":
                return new HostedProducer(name, properties);
            case "requests":
                return new HostedRequests(name, properties, request);
            case "consumer":
                return new HostedConsumer(name, properties, request);
            case "admin":
                return new HostedAdmin(name, properties);
            default:
                throw new IllegalArgumentException("unknown kind " + request.text("kind"));
        }
    }

    private Object send(Request request) throws Exception {
        Future<?> sent = find(request, HostedProducer.class).send(request);
        if (request.flag("wait", true)) {
            sent.get();
        }
        return find(request, Hosted.class).status();
    }

    private Object close(Request request) throws Exception {
        Hosted closed = find(request, Hosted.class);
        closed.close(request.number("timeout_ms", 5_000));
        if (closed.instances().isEmpty()) { // what was leaked keeps its sockets, and is told of
            hosted.remove(closed.name);
        }
        return true;
    }

    private <T extends Hosted> T find(Request request, Class<T> type) {
        Hosted found = hosted.get(request.text("name"));
        if (!type.isInstance(found)) {
            throw new IllegalArgumentException(
                    request.verb + ": no such client: " + request.text("name"));
        }
        return type.cast(found);
    }

    /** Every open connection of every client, as the clients themselves see them. */
    private Object truth() throws Exception {
        List<Map<String, Object>> connections = new ArrayList<>();
        for (Hosted owner : hosted.values()) {
            for (Map.Entry<Integer, Object> entry : owner.instances().entrySet()) {
                Object instance = entry.getValue();
                String clientId = Truth.clientId(instance);
                for (Map<String, Object> connection : Truth.connections(instance)) {
                    connection.put("name", owner.name);
                    connection.put("client_id", clientId);
                    connection.put("client_kind", owner.kind);
                    connection.put("instance", entry.getKey());
                    connections.add(connection);
                }
            }
        }
        return connections;
    }
}
