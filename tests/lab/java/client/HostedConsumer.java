import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer on a thread of its own, which alone touches it; polling can be switched off. */
final class HostedConsumer extends Hosted {
    private static final Duration POLL = Duration.ofMillis(100);

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final BlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();
    private final CountDownLatch ended = new CountDownLatch(1);
    private volatile boolean polling;
    private volatile boolean closing;
    private volatile long records;
    private volatile List<String> assignment = Collections.emptyList();

    HostedConsumer(String name, Properties properties, Request request) {
        super(name, "consumer", properties);
        consumer =
                new KafkaConsumer<>(
                        properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        List<String> topics = request.list("topics");
        List<TopicPartition> assigned = new ArrayList<>();
        for (String item : request.list("assign")) {
            int colon = item.lastIndexOf(':');
            int partition = Integer.parseInt(item.substring(colon + 1));
            assigned.add(new TopicPartition(item.substring(0, colon), partition));
        }
        if (!topics.isEmpty()) {
            consumer.subscribe(topics);
        } else if (!assigned.isEmpty()) {
            consumer.assign(assigned);
        }
        // Polling without topics is an error, and a consumer that never polls is a case to test.
        polling = request.flag("poll", true) && !(topics.isEmpty() && assigned.isEmpty());
        Thread thread = new Thread(this::run, name);
        thread.setDaemon(true);
        thread.start();
    }

    private void run() {
        while (!closing) {
            try {
                Runnable task = polling ? tasks.poll() : tasks.poll(50, TimeUnit.MILLISECONDS);
                if (task != null) {
                    task.run();
                } else if (polling) {
                    pollOnce();
                }
            } catch (InterruptedException asked) {
                closing = true;
            } catch (RuntimeException error) {
                lastError = error.toString();
            }
        }
        ended.countDown();
    }

    private void pollOnce() {
        records += consumer.poll(POLL).count();
        List<String> now = new ArrayList<>();
        consumer.assignment().forEach(partition -> now.add(partition.toString()));
        Collections.sort(now);
        assignment = now;
    }

    void poll(boolean on) {
        polling = on;
    }

    @Override
    Map<Integer, Object> instances() {
        return closing ? Collections.emptyMap() : Collections.singletonMap(0, consumer);
    }

    @Override
    void stop() {
        polling = false;
    }

    @Override
    void close(long timeoutMillis) throws Exception {
        tasks.add(
                () -> {
                    closing = true;
                    try {
                        closeWithin(consumer, timeoutMillis);
                    } catch (Exception error) {
                        lastError = error.toString();
                    }
                });
        if (!ended.await(timeoutMillis + 5_000, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("consumer " + name + " did not close");
        }
    }

    @Override
    Map<String, Object> status() {
        Map<String, Object> status = super.status();
        status.put("polling", polling);
        status.put("records", records);
        status.put("assignment", assignment);
        return status;
    }
}
