import java.io.FileDescriptor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.ConcurrentModificationException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;

/**
 * Reads a client's open connections out of the client: the channel table of its Selector, keyed
 * by the node id under which the client itself opened each one.
 */
final class Truth {
    private static final int ATTEMPTS = 200;

    /** The ways from a client to its NetworkClient, one for each generation and kind. */
    private static final String[] WAYS = {
        "sender.client",
        "client.client",
        "delegate.client.client",
        "delegate.applicationEventHandler.networkThread.networkClientDelegate.client",
        "client",
    };

    private Truth() {}

    /** The connections of one client; empty while it has no network thread yet. */
    static List<Map<String, Object>> connections(Object client) throws Exception {
        Object network = networkClient(client);
        if (network == null) {
            return new ArrayList<>();
        }
        Object selector = field(network, "selector");
        List<Map<String, Object>> connections = stable(selector);
        String coordinator = transactionCoordinator(client);
        Map<String, Map<String, Object>> totals = totalsByNode(client);
        for (Map<String, Object> connection : connections) {
            Object id = connection.get("node_id");
            connection.put("transaction_coordinator", id.equals(coordinator));
            connection.put("totals", totals.get("node-" + id));
        }
        return connections;
    }

    static String clientId(Object client) throws Exception {
        for (MetricName name : metrics(client).keySet()) {
            String id = name.tags().get("client-id");
            if (id != null) {
                return id;
            }
        }
        throw new IllegalStateException("no metric of the client carries its client-id");
    }

    /**
     * The table belongs to the client's thread and has no lock: read until two readings agree, so
     * that a table caught in the middle of a change is never the answer.
     */
    private static List<Map<String, Object>> stable(Object selector) throws Exception {
        List<Map<String, Object>> before = null;
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            List<Map<String, Object>> now;
            try {
                now = new ArrayList<>();
                collect(field(selector, "channels"), false, now);
                collect(field(selector, "closingChannels"), true, now);
            } catch (ConcurrentModificationException changedMeanwhile) {
                now = null;
            }
            if (now != null && now.equals(before)) {
                return now;
            }
            before = now;
            Thread.sleep(1);
        }
        throw new IllegalStateException("the channel table never stood still");
    }

    private static void collect(Object table, boolean closing, List<Map<String, Object>> into)
            throws Exception {
        for (Map.Entry<?, ?> entry : new ArrayList<>(((Map<?, ?>) table).entrySet())) {
            Object transport = field(entry.getValue(), "transportLayer");
            Method getter = transport.getClass().getMethod("socketChannel");
            getter.setAccessible(true);
            SocketChannel channel = (SocketChannel) getter.invoke(transport);
            if (!channel.isOpen()) {
                continue;
            }
            Map<String, Object> connection = new LinkedHashMap<>();
            connection.put("node_id", entry.getKey());
            try {
                connection.put("local", text(localAddress(channel)));
                connection.put("remote", text(channel.getRemoteAddress()));
            } catch (java.nio.channels.ClosedChannelException closedMeanwhile) {
                continue;
            }
            connection.put("connected", channel.isConnected());
            connection.put("closing", closing);
            into.add(connection);
        }
    }

    /** A channel that still connects does not tell its port, but the kernel has given it one. */
    private static SocketAddress localAddress(SocketChannel channel) throws Exception {
        SocketAddress known = channel.getLocalAddress();
        if (known != null) {
            return known;
        }
        Object descriptor = field(channel, "fd");
        Method ask =
                Class.forName("sun.nio.ch.Net").getMethod("localAddress", FileDescriptor.class);
        ask.setAccessible(true);
        return (SocketAddress) ask.invoke(null, descriptor);
    }

    private static String text(SocketAddress address) {
        InetSocketAddress internet = (InetSocketAddress) address;
        return internet == null
                ? null
                : internet.getAddress().getHostAddress() + ":" + internet.getPort();
    }

    private static Object networkClient(Object client) throws Exception {
        for (String way : WAYS) {
            Object found = follow(client, way);
            if (found != null && found.getClass().getSimpleName().equals("NetworkClient")) {
                return found;
            }
        }
        // Only the background consumer makes its NetworkClient late, on its own thread.
        if (follow(client, "delegate.applicationEventHandler.networkThread") != null) {
            return null;
        }
        throw new IllegalStateException("no NetworkClient in " + client.getClass());
    }

    private static Object follow(Object from, String way) throws Exception {
        Object at = from;
        for (String step : way.split("\\.")) {
            at = at == null || !has(at, step) ? null : field(at, step);
        }
        return at;
    }

    private static String transactionCoordinator(Object client) throws Exception {
        Object node = follow(client, "transactionManager.transactionCoordinator");
        return node == null ? null : ((org.apache.kafka.common.Node) node).idString();
    }

    private static Map<String, Map<String, Object>> totalsByNode(Object client) {
        Map<String, Map<String, Object>> byNode = new LinkedHashMap<>();
        for (Map.Entry<MetricName, ? extends Metric> entry : metrics(client).entrySet()) {
            MetricName name = entry.getKey();
            String node = name.tags().get("node-id");
            if (node != null && name.name().endsWith("-total")) {
                Object value = entry.getValue().metricValue();
                byNode.computeIfAbsent(node, absent -> new LinkedHashMap<>())
                        .put(name.name(), ((Number) value).longValue());
            }
        }
        return byNode;
    }

    private static Map<MetricName, ? extends Metric> metrics(Object client) {
        if (client instanceof Producer) {
            return ((Producer<?, ?>) client).metrics();
        }
        if (client instanceof Consumer) {
            return ((Consumer<?, ?>) client).metrics();
        }
        return ((AdminClient) client).metrics();
    }

    private static boolean has(Object owner, String name) {
        return find(owner, name) != null;
    }

    private static Object field(Object owner, String name) throws Exception {
        Field found = find(owner, name);
        if (found == null) {
            throw new NoSuchFieldException(owner.getClass() + " has no field " + name);
        }
        found.setAccessible(true);
        return found.get(owner);
    }

    private static Field find(Object owner, String name) {
        for (Class<?> at = owner.getClass(); at != null; at = at.getSuperclass()) {
            try {
                return at.getDeclaredField(name);
            } catch (NoSuchFieldException perhapsAbove) {
                continue;
            }
        }
        return null;
    }
}
