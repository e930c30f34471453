using System.Collections;
using System.IO;
using UnityEngine;

public sealed class Telemetry : MonoBehaviour
{
    Questlog questlog;
    bool hasEnded;

    void Start()
    {
        DontDestroyOnLoad(gameObject);
        var folder = Path.Combine(Application.persistentDataPath, "questlog");
        questlog = new Questlog("https://telemetry.your-game.example", "<ACCESS_TOKEN>", folder);
        questlog.Begin(Application.version, Application.platform.ToString(), "player-17");
        questlog.Record("checkpoint", "{\"level\":3}");
        InvokeRepeating(nameof(Flush), 1, 5);
        Application.wantsToQuit += WantsToQuit;
    }

    async void Flush() => await questlog.Flush();

    public void ReportBug(string title) => StartCoroutine(Report(title));

    IEnumerator Report(string title)
    {
        yield return new WaitForEndOfFrame();
        var screen = ScreenCapture.CaptureScreenshotAsTexture();
        questlog.Report(title, screen.EncodeToPNG());
        Destroy(screen);
    }

    /// Delays the end of the game until the last calls are sent, at most 2 s.
    bool WantsToQuit()
    {
        if (!hasEnded) EndAndQuit();
        return hasEnded;
    }

    async void EndAndQuit()
    {
        await questlog.End();
        hasEnded = true;
        Application.Quit();
    }
}
