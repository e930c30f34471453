// Replaces UnityEngine in tests: declares only the names that examples/unity uses, with the documented signatures. The game
// runs frames until stdin ends and then quits.
using System;
using System.Collections;
using System.IO;
using System.Reflection;
using System.Runtime.Serialization.Json;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace UnityEngine
{
    public class Object
    {
        public static void Destroy(Object it) { }
        public static void DontDestroyOnLoad(Object it) { }
    }

    public sealed class GameObject : Object { }

    public class MonoBehaviour : Object
    {
        public readonly GameObject gameObject = new GameObject();
        /// Calls the method in every frame instead of every 5 s.
        public string Repeating { get; private set; }
        public void InvokeRepeating(string methodName, float time, float repeatRate) => Repeating = methodName;
        public void StartCoroutine(IEnumerator routine) { while (routine.MoveNext()) { } }
    }

    public sealed class WaitForEndOfFrame { }

    public enum RuntimePlatform { LinuxPlayer }

    public static class Application
    {
        public static string version => "1.4.2";
        public static RuntimePlatform platform => RuntimePlatform.LinuxPlayer;
        public static string persistentDataPath => Environment.CurrentDirectory;
        public static event Func<bool> wantsToQuit;
        internal static bool HasQuit { get; private set; }

        public static void Quit() => HasQuit = wantsToQuit == null || wantsToQuit();
    }

    public static class Debug
    {
        public static void Log(object message) => Console.Error.WriteLine(message);
        public static void LogWarning(object message) => Console.Error.WriteLine(message);
    }

    public sealed class Texture2D : Object { }

    public static class ScreenCapture
    {
        public static Texture2D CaptureScreenshotAsTexture() => new Texture2D();
    }

    public static class ImageConversion
    {
        /// Returns the shortest file with the signature of a PNG.
        public static byte[] EncodeToPNG(this Texture2D texture) => new byte[] { 0x89, 80, 78, 71, 13, 10, 26, 10, 255 };
    }

    public static class JsonUtility
    {
        public static T FromJson<T>(string json)
        {
            using (var stream = new MemoryStream(Encoding.UTF8.GetBytes(json)))
                return (T)new DataContractJsonSerializer(typeof(T)).ReadObject(stream);
        }
    }

    /// Runs all code of the game on one thread, including continuations.
    sealed class Frames : SynchronizationContext
    {
        readonly System.Collections.Concurrent.ConcurrentQueue<Action> waiting = new System.Collections.Concurrent.ConcurrentQueue<Action>();
        public override void Post(SendOrPostCallback continued, object state) => waiting.Enqueue(() => continued(state));

        static void Main()
        {
            var frames = new Frames();
            SetSynchronizationContext(frames);
            var game = new Telemetry();
            Call(game, "Start");
            game.ReportBug("Stuck in a wall");
            var end = Task.Run(() => Console.In.ReadToEnd());
            var isAsked = false;
            while (!Application.HasQuit)
            {
                if (end.IsCompleted && !isAsked)
                {
                    isAsked = true;
                    Application.Quit();
                }
                Thread.Sleep(20);
                while (frames.waiting.TryDequeue(out var next)) next();
                if (game.Repeating != null) Call(game, game.Repeating);
            }
        }

        static void Call(object of, string method) =>
            of.GetType().GetMethod(method, BindingFlags.Instance | BindingFlags.NonPublic | BindingFlags.Public).Invoke(of, null);
    }
}
