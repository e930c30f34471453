using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;
using UnityEngine;

/// One session. Its calls are queued in files and sent one after another. Each call is retried until Questlog answers.
public sealed class Questlog
{
    const long MaxQueueBytes = 32 << 20;
    const int MaxBatchEvents = 200;
    /// The last event of a batch can exceed this limit. Proxies often accept at most 1 MiB.
    const int MaxBatchBytes = 512 << 10;
    const string Problem = "\"urn:questlog:problem:(\\w+)\"";
    const string Stops = "^(unauthorized|forbidden|suspended)$";
    /// Problem codes that do not reject the call itself: a wrong server, a change by a proxy, or too many requests.
    const string Waits = "^(not_found|method_not_allowed|misdirected_request|unsupported_media_type|request_timeout|rate_limited)$";

    enum Outcome { Stored, Refused, Waits, Blocked, NotUploaded }
    [Serializable] sealed class Room { public string uploadId, uploadUrl; }

    static readonly HttpClient http = new HttpClient { Timeout = TimeSpan.FromSeconds(30) };
    /// Measures time. The clock of a device can be set back.
    static readonly System.Diagnostics.Stopwatch clock = System.Diagnostics.Stopwatch.StartNew();
    readonly CancellationTokenSource ended = new CancellationTokenSource();
    readonly string session = Guid.NewGuid().ToString(), url, token, folder;
    Task flushing = Task.CompletedTask;
    bool isStopped;
    TimeSpan notBefore, nextWarning;
    TimeSpan? failingSince;
    string answer, sending, batch;
    int sequence, batchEvents, batchBytes;
    long fileNumber;

    /// Stores the queue in the folder. Throws if an argument is invalid.
    public Questlog(string url, string token, string folder)
    {
        if (!Regex.IsMatch(url ?? "", "^https?://[^/?#@]+[^?#@]*$"))
            throw new ArgumentException("must be an address such as https://telemetry.your-game.example", nameof(url));
        if (!Regex.IsMatch(token ?? "", "^[!-~]+$")) throw new ArgumentException("must be an access token", nameof(token));
        this.url = url.TrimEnd('/');
        this.token = token;
        this.folder = Directory.CreateDirectory(folder).FullName;
        fileNumber = Queued().Select(file => long.Parse(Path.GetFileName(file).Split('.')[0])).LastOrDefault();
    }

    /// Call it when the game starts. Throws if the version or the platform is missing.
    public void Begin(string version, string platform, string playerId)
    {
        if (string.IsNullOrEmpty(version)) throw new ArgumentException("is missing", nameof(version));
        if (string.IsNullOrEmpty(platform)) throw new ArgumentException("is missing", nameof(platform));
        Write(NewFile("sessions"), Json("id", Text(session), "player", Json("externalId", Text(playerId ?? "")),
            "build", Json("version", Text(version), "platform", Text(platform))));
    }

    /// Queues an event. The payload is a JSON object, for example from JsonUtility.ToJson.
    public void Record(string eventType, string payload = "{}")
    {
        if (batch == null || batchEvents == MaxBatchEvents || batchBytes > MaxBatchBytes)
            (batch, batchEvents, batchBytes) = (NewFile("events"), 0, 0);
        var line = Json("sessionId", Text(session), "eventType", Text(eventType), "occurredAt", Now(),
            "sequence", (++sequence).ToString(), "payload", payload) + "\n";
        batchEvents++;
        batchBytes += Encoding.UTF8.GetByteCount(line);
        Append(batch, line);
    }

    /// Queues a bug report with a screenshot. Questlog links the report to the events of the last ten minutes.
    public void Report(string title, byte[] png)
    {
        var file = NewFile("reports");
        Write(Path.ChangeExtension(file, "png"), png);
        Write(file, Json("sessionId", Text(session), "clientRequestId", Text(Guid.NewGuid().ToString()),
            "occurredAt", Now(), "report", Json("title", Text(title), "reporterType", Text("player"))));
    }

    /// Sends the queued calls. Call it every few seconds, always on the same thread.
    public Task Flush() => flushing.IsCompleted ? flushing = SendAll() : flushing;

    /// Sends the queued calls for a limited time. Returns false if calls are left for the next start.
    public async Task<bool> End(int endWithinMs = 2000)
    {
        await Task.WhenAny(Flush(), Task.Delay(endWithinMs));
        isStopped = true;
        ended.Cancel();
        return !Queued().Any();
    }

    async Task SendAll()
    {
        while (!isStopped && clock.Elapsed >= notBefore && await SendNext()) { }
    }

    async Task<bool> SendNext()
    {
        sending = Queued().FirstOrDefault();
        if (sending == null) return false;
        if (sending == batch) batch = null;
        var kind = Path.GetExtension(sending).Substring(1);
        var outcome = kind == "reports" ? await SendPicture() : Outcome.Stored;
        if (IsDone(outcome))
        {
            var text = File.ReadAllText(sending);
            // Skips an incomplete line, which a process leaves if it is killed during a write.
            if (kind == "events") text = "[" + text.Substring(0, text.LastIndexOf('\n') + 1).TrimEnd().Replace('\n', ',') + "]";
            outcome = await Send(HttpMethod.Post, $"{url}/v1/ingest/{kind}", Encoding.UTF8.GetBytes(text));
        }
        if (IsDone(outcome)) File.Delete(sending);
        else if (kind == "reports" && outcome != Outcome.Waits) MoveToEnd(outcome == Outcome.NotUploaded ? "retry." : "");
        return IsDone(outcome);
    }

    static bool IsDone(Outcome outcome) => outcome == Outcome.Stored || outcome == Outcome.Refused;

    /// Uploads the screenshot of a report and adds its id to the report. Leaves out a screenshot that is rejected or fails three times.
    async Task<Outcome> SendPicture()
    {
        var picture = Path.ChangeExtension(sending, "png");
        if (!File.Exists(picture)) return Outcome.Stored;
        var report = File.ReadAllText(sending);
        var png = File.ReadAllBytes(picture);
        var about = new[] { "attachmentType", Text("screenshot"), "fileName", Text("screenshot.png"),
            "mimeType", Text("image/png"), "sizeBytes", png.Length.ToString() };
        var outcome = report.EndsWith("]}") ? Outcome.Refused
            : await Send(HttpMethod.Post, url + "/v1/ingest/uploads", Encoding.UTF8.GetBytes(Json(about)));
        if (outcome == Outcome.Stored)
        {
            var room = JsonUtility.FromJson<Room>(answer);
            outcome = await Send(HttpMethod.Put, room.uploadUrl, png);
            var file = Json(about.Concat(new[] { "uploadId", Text(room.uploadId) }).ToArray());
            if (outcome == Outcome.Stored) Write(sending, report.Substring(0, report.Length - 1) + $",\"attachments\":[{file}]}}");
        }
        if (outcome == Outcome.NotUploaded && sending.EndsWith(".retry.retry.reports")) outcome = Outcome.Refused;
        if (IsDone(outcome)) File.Delete(picture);
        return outcome;
    }

    async Task<Outcome> Send(HttpMethod method, string address, byte[] body)
    {
        var isFile = method == HttpMethod.Put;
        var request = new HttpRequestMessage(method, address) { Content = new ByteArrayContent(body) };
        request.Content.Headers.Add("Content-Type", isFile ? "image/png" : "application/json");
        if (!isFile) request.Headers.Add("Authorization", "Bearer " + token);
        if (sending.EndsWith("events"))
        {
            request.Headers.Add("Idempotency-Key", Path.GetFileName(sending).Split('.')[1]);
            request.Headers.Add("Prefer", "handling=lenient");
        }
        int status;
        bool isDelayed;
        var failure = isFile ? Outcome.NotUploaded : Outcome.Waits;
        try
        {
            var response = await http.SendAsync(request, ended.Token);
            answer = await response.Content.ReadAsStringAsync();
            status = (int)response.StatusCode;
            isDelayed = response.Headers.RetryAfter != null;
            notBefore = clock.Elapsed + (response.Headers.RetryAfter?.Delta ?? TimeSpan.Zero);
        }
        catch (OperationCanceledException) { return Failed(failure, "no answer within 30 s"); }
        catch (Exception error) { return Failed(failure, error.GetBaseException().Message); }
        var problem = Regex.Match(answer, Problem);
        var code = problem.Groups[1].Value;
        var isOk = status >= 200 && status < 300;
        // A rate limit rejected some events of the batch. A retry with the same key stores only these events.
        if (status == 207 && isDelayed) return Reached(Outcome.Waits);
        // A file can be uploaded to another server, such as S3, whose response contains no id.
        if (isOk && (isFile || code != "" || Regex.IsMatch(answer, "\"(id|uploadId)\":")))
        {
            if (code != "")
                Debug.LogWarning($"Questlog rejected events: {answer.Substring(problem.Index, Math.Min(500, answer.Length - problem.Index))}");
            return Reached(Outcome.Stored);
        }
        // A token without the scope of reports can still send events.
        if (Regex.IsMatch(code, Stops) && !(code == "forbidden" && sending.EndsWith("reports")))
        {
            isStopped = true;
            Debug.LogWarning($"Questlog stops until the next start: {answer}");
            return Outcome.Waits;
        }
        var isRejected = status >= 400 && status < 500 && status != 408 && status != 429;
        if (isFile ? isRejected : (code != "" && isRejected && !Regex.IsMatch(code, Waits)) || status == 501)
        {
            Debug.LogWarning($"{address} was refused: {answer}");
            return Reached(Outcome.Refused);
        }
        if (code == "rate_limited") return Reached(Outcome.Waits);
        var what = code == "" ? "which is not an answer of Questlog" : answer;
        if (isRejected && code == "") failure = Outcome.Blocked;
        if (status >= 500 && address.EndsWith("/uploads")) failure = Outcome.NotUploaded;
        return Failed(failure, $"{address} answers {status}, {what}");
    }

    /// Logs the first failure, and later failures at most once per minute.
    Outcome Failed(Outcome outcome, string why)
    {
        if (ended.IsCancellationRequested) return Outcome.Waits;
        if (outcome == Outcome.NotUploaded)
        {
            Debug.LogWarning($"the screenshot of a report was not uploaded: {why}");
            return outcome;
        }
        if (failingSince == null) failingSince = clock.Elapsed;
        if (clock.Elapsed < nextWarning) return outcome;
        nextWarning = clock.Elapsed + TimeSpan.FromMinutes(1);
        Debug.LogWarning($"cannot reach {url}: {why}; {Queued().Count()} calls wait");
        return outcome;
    }

    Outcome Reached(Outcome outcome)
    {
        // An outage within a minute after another outage was not reported.
        if (failingSince is TimeSpan since && nextWarning >= since + TimeSpan.FromMinutes(1))
            Debug.Log($"reached {url} again after {(int)(clock.Elapsed - since).TotalSeconds} s; {Queued().Count()} calls waited");
        failingSince = null;
        return outcome;
    }

    /// Returns the files of the calls in their order. A file name has a number, the Idempotency-Key, and the kind of the call.
    IEnumerable<string> Queued(string kind = "*s") =>
        Directory.GetFiles(folder, "*." + kind).OrderBy(file => file, StringComparer.Ordinal);

    string NewFile(string kind) => Path.Combine(folder, $"{++fileNumber:d12}.{Uuid7()}.{kind}");

    /// Writes a file atomically.
    void Write(string file, byte[] bytes) => Keep(bytes.Length, () =>
    {
        File.WriteAllBytes(file + ".tmp", bytes);
        if (File.Exists(file)) File.Replace(file + ".tmp", file, null);
        else File.Move(file + ".tmp", file);
    });

    void Write(string file, string text) => Write(file, Encoding.UTF8.GetBytes(text));

    void Append(string file, string text) => Keep(Encoding.UTF8.GetByteCount(text), () => File.AppendAllText(file, text));

    /// Writes a call to the queue. A full queue drops its oldest events, or the new call if that is not enough.
    void Keep(int bytes, Action write)
    {
        var total = bytes + new DirectoryInfo(folder).GetFiles().Sum(file => file.Length);
        foreach (var file in Queued("events").Where(file => file != sending && file != batch))
        {
            if (total <= MaxQueueBytes) break;
            total -= new FileInfo(file).Length;
            File.Delete(file);
            Debug.LogWarning("the queue is full: the oldest events are dropped");
        }
        try
        {
            if (total > MaxQueueBytes) throw new IOException("the queue is full");
            write();
        }
        catch (Exception error) { Debug.LogWarning($"not written to the queue: {error.Message}"); }
    }

    /// Delays a report that a proxy rejects, for example because of its text, or whose screenshot fails. Later calls are sent first.
    /// The file name contains "retry." for each failure of the screenshot.
    void MoveToEnd(string retry)
    {
        var file = NewFile(retry + Path.GetFileName(sending).Split(new[] { '.' }, 3)[2]);
        if (File.Exists(Path.ChangeExtension(sending, "png")))
            File.Move(Path.ChangeExtension(sending, "png"), Path.ChangeExtension(file, "png"));
        File.Move(sending, file);
    }

    /// Builds a JSON object from alternating names and values. The values are JSON.
    static string Json(params string[] pairs) => "{" + string.Join(",",
        Enumerable.Range(0, pairs.Length / 2).Select(i => Text(pairs[2 * i]) + ":" + pairs[2 * i + 1])) + "}";

    static string Text(string text) => "\"" + string.Concat(
        text.Select(c => c < ' ' || c == '"' || c == '\\' ? "\\u" + ((int)c).ToString("x4") : c.ToString())) + "\"";

    static string Now() => Text(DateTime.UtcNow.ToString("o"));

    static string Uuid7()
    {
        var time = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds().ToString("x12");
        return $"{time.Substring(0, 8)}-{time.Substring(8)}-7{Guid.NewGuid().ToString().Substring(15)}";
    }
}
