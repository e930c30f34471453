import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import org.apache.avro.Schema;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.specific.SpecificDatumReader;
import questlog.v1.events.EventsAccepted;
import questlog.v1.linkedevents.LinkedEvent;

/**
 * A bug tracker that reads two topics with generated classes. A line of the file has a subject, the writer schema and the
 * record; the schema and the record are in base64. Prints one line for each event.
 */
public class ReadBothTopics {
  public static void main(String[] arguments) throws Exception {
    for (String line : Files.readAllLines(Path.of(arguments[0]))) {
      String[] parts = line.split(" ");
      Schema writer = new Schema.Parser().parse(new String(bytes(parts[1]), StandardCharsets.UTF_8));
      if (parts[0].equals("questlog.events.v1-value")) {
        EventsAccepted accepted = read(writer, EventsAccepted.getClassSchema(), bytes(parts[2]));
        List<questlog.v1.events.Event> events = accepted.getEvents();
        for (questlog.v1.events.Event event : events) {
          System.out.println(String.join("\t", "event", event.getId().toString(), event.getEventType(), event.getPayload(),
              String.valueOf(event.getSequence()), String.valueOf(event.getSampleRate()), accepted.getRevision().name(),
              accepted.getIdempotency() == null ? "null" : accepted.getIdempotency().getKey().toString()));
        }
      } else {
        LinkedEvent link = read(writer, LinkedEvent.getClassSchema(), bytes(parts[2]));
        questlog.v1.linkedevents.Event event = link.getEvent();
        System.out.println(String.join("\t", "link", event.getId().toString(), event.getEventType(), event.getPayload(),
            link.getKind().name(), link.getSource().name(), link.getReportId().toString(), event.getReceivedAt().toString()));
      }
    }
  }

  private static <Message> Message read(Schema writer, Schema reader, byte[] record) throws Exception {
    return new SpecificDatumReader<Message>(writer, reader).read(null, DecoderFactory.get().binaryDecoder(record, null));
  }

  private static byte[] bytes(String base64) {
    return Base64.getDecoder().decode(base64);
  }
}
