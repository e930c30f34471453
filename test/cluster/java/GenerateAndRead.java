import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import javax.tools.ToolProvider;
import org.apache.avro.Schema;
import org.apache.avro.compiler.specific.SpecificCompiler;
import org.apache.avro.generic.GenericData.StringType;

/**
 * Generates classes from every schema of a folder, as avro-maven-plugin does. Compiles the classes and a program as one project,
 * and runs the program.
 * Arguments: the folder of the schemas, a working folder, the program, the file of records.
 */
public class GenerateAndRead {
  public static void main(String[] arguments) throws Exception {
    Path work = Path.of(arguments[1]);
    Path sources = Files.createDirectories(work.resolve("sources"));
    Path classes = Files.createDirectories(work.resolve("classes"));
    try (Stream<Path> schemas = Files.list(Path.of(arguments[0])).filter(path -> path.toString().endsWith(".avsc")).sorted()) {
      Schema.Parser project = new Schema.Parser();
      for (Path path : schemas.toList()) {
        // One parser for all schemas rejects a name that is defined twice.
        SpecificCompiler compiler = new SpecificCompiler(project.parse(path.toFile()));
        compiler.setStringType(StringType.String);
        compiler.compileToDestination(null, sources.toFile());
      }
    }
    List<String> options = new ArrayList<>(List.of("-nowarn", "-proc:none", "-d", classes.toString(),
        "-cp", System.getProperty("java.class.path"), arguments[2]));
    try (Stream<Path> generated = Files.walk(sources).filter(path -> path.toString().endsWith(".java"))) {
      generated.map(Path::toString).forEach(options::add);
    }
    int status = ToolProvider.getSystemJavaCompiler().run(null, null, null, options.toArray(String[]::new));
    if (status != 0) System.exit(status);
    URLClassLoader loader = new URLClassLoader(new URL[] {classes.toUri().toURL()}, GenerateAndRead.class.getClassLoader());
    Thread.currentThread().setContextClassLoader(loader);
    String name = new File(arguments[2]).getName().replace(".java", "");
    loader.loadClass(name).getMethod("main", String[].class).invoke(null, (Object) new String[] {arguments[3]});
  }
}
