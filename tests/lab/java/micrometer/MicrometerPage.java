import com.sun.net.httpserver.HttpServer;
import io.micrometer.core.instrument.binder.kafka.KafkaClientMetrics;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.function.Consumer;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.producer.Producer;

/** Binds every client it is shown to Micrometer and serves the registry as a scrape page. */
public final class MicrometerPage implements Consumer<Object> {
    private final PrometheusMeterRegistry registry =
            new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);

    /** Listens on {@code host:port}. */
    public MicrometerPage(String address) throws IOException {
        int colon = address.lastIndexOf(':');
        String host = address.substring(0, colon);
        int port = Integer.parseInt(address.substring(colon + 1));
        HttpServer server = HttpServer.create(new InetSocketAddress(host, port), 0);
        server.createContext(
                "/metrics",
                exchange -> {
                    byte[] page = registry.scrape().getBytes(StandardCharsets.UTF_8);
                    exchange.getResponseHeaders().add("Content-Type", "text/plain; version=0.0.4");
                    exchange.sendResponseHeaders(200, page.length);
                    try (OutputStream body = exchange.getResponseBody()) {
                        body.write(page);
                    }
                });
        server.start();
    }

    @Override
    public void accept(Object client) {
        try {
            bindingOf(client).bindTo(registry);
        } catch (NoClassDefFoundError missing) { // admin clients of 2.1, as in real life
            System.err.println("Micrometer cannot bind " + client.getClass() + ": " + missing);
        }
    }

    private static KafkaClientMetrics bindingOf(Object client) {
        if (client instanceof Producer) {
            return new KafkaClientMetrics((Producer<?, ?>) client);
        }
        if (client instanceof AdminClient) {
            return new KafkaClientMetrics((AdminClient) client);
        }
        return new KafkaClientMetrics((org.apache.kafka.clients.consumer.Consumer<?, ?>) client);
    }
}
