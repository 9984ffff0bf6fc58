import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A producer, plain, idempotent or transactional, and the twins of it that somebody leaked. */
final class HostedProducer extends Hosted {
    private final KafkaProducer<byte[], byte[]> producer;
    private final boolean transactional;
    private final ConcurrentSkipListMap<Integer, Object> instances = new ConcurrentSkipListMap<>();
    private final ExecutorService loop = Executors.newSingleThreadExecutor();
    private final AtomicLong acknowledged = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private int leaks;
    private volatile boolean stopping;

    HostedProducer(String name, Properties properties) {
        super(name, "producer", properties);
        producer = open(properties);
        transactional = properties.containsKey("transactional.id");
        instances.put(0, producer);
    }

    static KafkaProducer<byte[], byte[]> open(Properties properties) {
        return new KafkaProducer<>(
                properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Makes producers with the same properties, client.id included, that nobody will close. */
    synchronized List<Object> leak(long count) {
        List<Object> leaked = new ArrayList<>();
        for (long i = 0; i < count; i++) {
            Object twin = open(properties);
            leaked.add(twin);
            instances.put(++leaks, twin);
        }
        return leaked;
    }

    void initTransactions() {
        producer.initTransactions();
    }

    /** Sends rounds, one record to each partition a round; negative rounds never end. */
    Future<?> send(Request request) {
        String topic = request.text("topic");
        List<Integer> partitions = new ArrayList<>();
        request.list("partitions").forEach(text -> partitions.add(Integer.valueOf(text)));
        long rounds = request.number("rounds", 1);
        long interval = request.number("interval_ms", 0);
        byte[] value = new byte[(int) request.number("size", 10)];
        stopping = false;
        return loop.submit(
                () -> {
                    for (long round = 0; round != rounds && !stopping; round++) {
                        sendRound(topic, partitions, value);
                        pause(interval);
                    }
                    producer.flush();
                });
    }

    private void sendRound(String topic, List<Integer> partitions, byte[] value) {
        try {
            if (transactional) {
                producer.beginTransaction();
            }
            for (Integer partition : partitions) {
                producer.send(
                        new ProducerRecord<>(topic, partition, null, value),
                        (metadata, error) -> count(error));
            }
            if (transactional) {
                producer.commitTransaction();
            }
        } catch (RuntimeException error) {
            count(error);
        }
    }

    private void count(Exception error) {
        if (error == null) {
            acknowledged.incrementAndGet();
        } else {
            failed.incrementAndGet();
            lastError = error.toString();
        }
    }

    private void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException asked) {
            stopping = true;
        }
    }

    @Override
    Map<Integer, Object> instances() {
        return instances;
    }

    @Override
    void stop() {
        stopping = true;
    }

    @Override
    void close(long timeoutMillis) throws Exception {
        stop();
        instances.remove(0);
        loop.shutdown();
        closeWithin(producer, timeoutMillis);
    }

    @Override
    Map<String, Object> status() {
        Map<String, Object> status = super.status();
        status.put("acknowledged", acknowledged.get());
        status.put("failed", failed.get());
        return status;
    }
}
