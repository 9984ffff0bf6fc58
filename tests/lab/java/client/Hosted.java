import java.lang.reflect.Method;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;

/** Something under one name: a client, or a loop that makes clients. */
abstract class Hosted {
    final String name;
    final String kind;
    final Properties properties;
    volatile String lastError;

    Hosted(String name, String kind, Properties properties) {
        this.name = name;
        this.kind = kind;
        this.properties = properties;
    }

    /** Every Kafka client that is not closed, leaked ones included, by its number from 0 on. */
    abstract Map<Integer, Object> instances();

    /** Ends loops; the clients stay open. */
    abstract void stop();

    abstract void close(long timeoutMillis) throws Exception;

    /** Counters and the last error, for tests that wait. */
    Map<String, Object> status() {
        Map<String, Object> status = new LinkedHashMap<>();
        status.put("name", name);
        status.put("kind", kind);
        status.put("instances", instances().size());
        status.put("last_error", lastError);
        return status;
    }

    /** A timed close is spelled in another way before 2.2, and that one is gone from 3.0 on. */
    static void closeWithin(Object client, long timeoutMillis) throws Exception {
        Method withDuration;
        try {
            withDuration = client.getClass().getMethod("close", Duration.class);
        } catch (NoSuchMethodException olderThan22) {
            client.getClass()
                    .getMethod("close", long.class, TimeUnit.class)
                    .invoke(client, timeoutMillis, TimeUnit.MILLISECONDS);
            return;
        }
        withDuration.invoke(client, Duration.ofMillis(timeoutMillis));
    }
}
