import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The mistake of making a producer for every request, closing it afterwards or not. */
final class HostedRequests extends Hosted {
    private final ConcurrentSkipListMap<Integer, Object> instances = new ConcurrentSkipListMap<>();
    private final AtomicLong done = new AtomicLong();
    private final Thread loop;
    private volatile boolean stopping;

    HostedRequests(String name, Properties properties, Request request) {
        super(name, "producer", properties);
        String topic = request.text("topic");
        List<String> partitions = request.list("partitions");
        long requests = request.number("requests", -1);
        long interval = request.number("interval_ms", 1000);
        boolean leak = request.flag("leak", false);
        loop =
                new Thread(
                        () -> {
                            while (done.get() != requests && !stopping) {
                                serve(topic, partitions, leak, interval);
                            }
                        },
                        name);
        loop.setDaemon(true);
        loop.start();
    }

    private void serve(String topic, List<String> partitions, boolean leak, long interval) {
        try {
            KafkaProducer<byte[], byte[]> producer = HostedProducer.open(properties);
            int number = (int) done.get();
            instances.put(number, producer);
            for (String partition : partitions) {
                producer.send(
                        new ProducerRecord<>(
                                topic, Integer.valueOf(partition), null, new byte[10]));
            }
            producer.flush();
            if (!leak) {
                producer.close();
                instances.remove(number);
            }
            Thread.sleep(interval);
        } catch (InterruptedException asked) {
            stopping = true;
        } catch (RuntimeException error) {
            lastError = error.toString();
        }
        done.incrementAndGet();
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
        loop.join(timeoutMillis);
        for (Object producer : instances.values()) {
            closeWithin(producer, timeoutMillis);
        }
        instances.clear();
    }

    @Override
    Map<String, Object> status() {
        Map<String, Object> status = super.status();
        status.put("requests", done.get());
        return status;
    }
}
