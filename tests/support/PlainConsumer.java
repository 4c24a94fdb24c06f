import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A plain consumer that writes a line for each record (partition, offset, key, when it began and
 * ended, in ns of the monotonic clock), until its standard input ends. Commits are left to
 * enable.auto.commit. Arguments: bootstrap servers, topic, group, assignors (class names; empty:
 * the client's own default).
 */
public class PlainConsumer {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, args[2]);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 6000);
        settings.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 200);
        if (!args[3].isEmpty()) {
            settings.put(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG, args[3]);
        }
        KafkaConsumer<String, String> consumer =
            new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        Thread stopper = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException gone) {
                // The parent has gone: the same as being asked to stop.
            }
            consumer.wakeup();
        });
        stopper.setDaemon(true);
        stopper.start();
        try (consumer) {
            consumer.subscribe(List.of(args[1]));
            while (true) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
                    long started = System.nanoTime();
                    System.out.println(record.partition() + " " + record.offset() + " "
                        + record.key() + " " + started + " " + System.nanoTime());
                }
                System.out.flush();
            }
        } catch (WakeupException stopped) {
            System.out.flush();
        }
    }
}
