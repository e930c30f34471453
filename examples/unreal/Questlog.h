#pragma once

#include "CoreMinimal.h"
#include "Dom/JsonObject.h"
#include "HAL/FileManager.h"
#include "HttpManager.h"
#include "HttpModule.h"
#include "Interfaces/IHttpRequest.h"
#include "Interfaces/IHttpResponse.h"
#include "Misc/FileHelper.h"
#include "Misc/Paths.h"
#include "Serialization/JsonSerializer.h"

/** One session. Its calls are queued in files and sent one after another. Each call is retried until Questlog answers. */
class FQuestlog : public TSharedFromThis<FQuestlog>
{
public:
	static constexpr int64 MaxQueueBytes = 32 << 20;
	static constexpr int32 MaxBatchEvents = 200;
	/** The last event of a batch can exceed this limit. Proxies often accept at most 1 MiB. */
	static constexpr int64 MaxBatchBytes = 512 << 10;

	/** Stores the queue in the folder. If an argument is invalid, sends nothing and logs the argument. */
	FQuestlog(const FString& InUrl, const FString& InToken, const FString& InFolder) : Url(InUrl), Token(InToken), Folder(InFolder)
	{
		Check(Url.StartsWith(TEXT("http://")) || Url.StartsWith(TEXT("https://")), TEXT("Url must be an address such as https://telemetry.your-game.example"));
		Check(!Token.IsEmpty() && !Token.Contains(TEXT(" ")), TEXT("Token must be an access token"));
		IFileManager::Get().MakeDirectory(*Folder, true);
		for (const FString& File : Queued()) FileNumber = FCString::Atoi64(*File);
	}

	/** Call it when the game starts. */
	void Begin(const FString& Version, const FString& Platform, const FString& PlayerId)
	{
		Check(!Version.IsEmpty(), TEXT("Version is missing"));
		Check(!Platform.IsEmpty(), TEXT("Platform is missing"));
		Write(NewFile(TEXT("sessions")), Object({ Field(TEXT("id"), Quoted(Session)),
			Field(TEXT("build"), Object({ Field(TEXT("version"), Quoted(Version)), Field(TEXT("platform"), Quoted(Platform)) })),
			Field(TEXT("player"), Object({ Field(TEXT("externalId"), Quoted(PlayerId)) })) }));
	}

	/** Queues an event. The payload is a JSON object. */
	void Record(const FString& EventType, const FString& Payload = TEXT("{}"))
	{
		if (Batch.IsEmpty() || BatchEvents == MaxBatchEvents || IFileManager::Get().FileSize(*(Folder / Batch)) > MaxBatchBytes)
		{
			Batch = NewFile(TEXT("events"));
			BatchEvents = 0;
		}
		++BatchEvents;
		const FString Event = Object({ Field(TEXT("sessionId"), Quoted(Session)), Field(TEXT("eventType"), Quoted(EventType)),
			Field(TEXT("occurredAt"), Quoted(FDateTime::UtcNow().ToIso8601())),
			Field(TEXT("sequence"), FString::FromInt(++Sequence)), Field(TEXT("payload"), Payload) }) + TEXT("\n");
		if (HasRoom(Event.Len())) Saved(FFileHelper::SaveStringToFile(Event, *(Folder / Batch),
			FFileHelper::EEncodingOptions::ForceUTF8WithoutBOM, &IFileManager::Get(), FILEWRITE_Append));
	}

	/** Queues a bug report with a screenshot. Questlog links the report to the events of the last ten minutes. */
	void Report(const FString& Title, const TArray<uint8>& Png)
	{
		const FString File = NewFile(TEXT("reports"));
		if (HasRoom(Png.Num())) Saved(FFileHelper::SaveArrayToFile(Png, *PictureOf(File)));
		Write(File, Object({ Field(TEXT("sessionId"), Quoted(Session)), Field(TEXT("clientRequestId"), Quoted(NewId())),
			Field(TEXT("occurredAt"), Quoted(FDateTime::UtcNow().ToIso8601())),
			Field(TEXT("report"), Object({ Field(TEXT("title"), Quoted(Title)), TEXT("\"reporterType\":\"player\"") })) }));
	}

	/** Sends the queued calls. Call it every few seconds on the game thread. */
	void Flush()
	{
		if (Sending.IsValid() || bStopped || FPlatformTime::Seconds() < NotBefore) return;
		const TArray<FString> Files = Queued();
		if (Files.Num() == 0) return;
		Current = Files[0];
		if (Current == Batch) Batch.Empty();
		FString Text;
		FFileHelper::LoadFileToString(Text, *(Folder / Current));
		if (IFileManager::Get().FileExists(*PictureOf(Current)) && !Text.EndsWith(TEXT("]}"))) return SendPicture();
		int32 End = 0;
		// Skips an incomplete line, which a process leaves if it is killed during a write.
		if (Current.EndsWith(TEXT("events")) && Text.FindLastChar(TEXT('\n'), End))
			Text = TEXT("[") + Text.Left(End).Replace(TEXT("\n"), TEXT(",")) + TEXT("]");
		Step = EStep::Call;
		const FHttpRequestRef Request = RequestTo(TEXT("POST"), Url + TEXT("/v1/ingest/") + FPaths::GetExtension(Current));
		Request->SetContentAsString(Text);
		Send(Request);
	}

	/** Sends the queued calls for a limited time. Returns false if calls are left for the next start. */
	bool End(double EndWithinSeconds = 2.0)
	{
		const double Until = FPlatformTime::Seconds() + EndWithinSeconds;
		for (Flush(); Sending.IsValid() && FPlatformTime::Seconds() < Until; FPlatformProcess::Sleep(0.01f))
			FHttpModule::Get().GetHttpManager().Tick(0.01f);
		bStopped = true;
		if (Sending.IsValid()) Sending->CancelRequest();
		return Queued().Num() == 0;
	}

private:
	enum class EStep { Call, Room, Picture };

	/** Uploads a screenshot before its report: requests an upload URL, then sends the file. */
	void SendPicture()
	{
		TArray<uint8> Png;
		FFileHelper::LoadFileToArray(Png, *PictureOf(Current));
		About = { TEXT("\"attachmentType\":\"screenshot\",\"fileName\":\"screenshot.png\",\"mimeType\":\"image/png\""),
			Field(TEXT("sizeBytes"), FString::FromInt(Png.Num())) };
		Step = UploadUrl.IsEmpty() ? EStep::Room : EStep::Picture;
		const bool bRoom = Step == EStep::Room;
		const FHttpRequestRef Request = bRoom ? RequestTo(TEXT("POST"), Url + TEXT("/v1/ingest/uploads")) : RequestTo(TEXT("PUT"), UploadUrl);
		if (bRoom) Request->SetContentAsString(Object(About));
		else Request->SetContent(Png);
		Send(Request);
	}

	FHttpRequestRef RequestTo(const TCHAR* Verb, const FString& Address)
	{
		const FHttpRequestRef Request = FHttpModule::Get().CreateRequest();
		Request->SetVerb(Verb);
		Request->SetURL(Address);
		Request->SetHeader(TEXT("Content-Type"), Step == EStep::Picture ? TEXT("image/png") : TEXT("application/json"));
		if (Step != EStep::Picture) Request->SetHeader(TEXT("Authorization"), TEXT("Bearer ") + Token);
		if (Current.EndsWith(TEXT("events")))
		{
			Request->SetHeader(TEXT("Idempotency-Key"), Current.Mid(13, 36));
			Request->SetHeader(TEXT("Prefer"), TEXT("handling=lenient"));
		}
		Request->SetTimeout(30.0f);
		return Request;
	}

	void Send(const FHttpRequestRef& Request)
	{
		Request->OnProcessRequestComplete().BindSP(this, &FQuestlog::Answered);
		Sending = Request;
		Request->ProcessRequest();
	}

	void Answered(FHttpRequestPtr Request, FHttpResponsePtr Response, bool bAnswered)
	{
		Sending.Reset();
		const bool bPicture = Step == EStep::Picture;
		if (!bAnswered || !Response.IsValid())
		{
			const TCHAR* Why = TEXT("no connection, or no answer within 30 s");
			return bPicture && !bStopped ? NotUploaded(Why) : Failed(Why);
		}
		const FString RetryAfter = Response->GetHeader(TEXT("Retry-After"));
		NotBefore = FPlatformTime::Seconds() + FCString::Atod(*RetryAfter);
		const int32 Status = Response->GetResponseCode();
		const FString Answer = Response->GetContentAsString();
		const FString Code = CodeOf(Answer);
		// A rate limit rejected some events of the batch. A retry with the same key stores only these events.
		if (Status == 207 && !RetryAfter.IsEmpty()) return Reached();
		// A file can be uploaded to another server, such as S3, whose response contains no id.
		const bool bOurs = bPicture || !Code.IsEmpty() || Answer.Contains(TEXT("\"id\":")) || Answer.Contains(TEXT("\"uploadId\":"));
		if (Status >= 200 && Status < 300 && bOurs)
		{
			if (!Code.IsEmpty())
				UE_LOG(LogTemp, Warning, TEXT("Questlog rejected events: %s"), *Answer.Mid(Answer.Find(TEXT("urn:questlog:problem:")), 500));
			return Done(Answer, true);
		}
		// A token without the scope of reports can still send events.
		if (Stops.Contains(Code) && !(Code == TEXT("forbidden") && Current.EndsWith(TEXT("reports"))))
		{
			bStopped = true;
			UE_LOG(LogTemp, Warning, TEXT("Questlog stops until the next start: %s"), *Answer);
			return;
		}
		const bool bRejected = Status >= 400 && Status < 500 && Status != 408 && Status != 429;
		const bool bRefused = !Code.IsEmpty() && !Waits.Contains(Code) && (bRejected || Status == 501);
		if (bPicture ? bRejected : bRefused)
		{
			UE_LOG(LogTemp, Warning, TEXT("%s was refused: %s"), *Current, *Answer);
			return Done(Answer, false);
		}
		if (Code == TEXT("rate_limited")) return Reached();
		const FString Why = FString::Printf(TEXT("it answers %d, %s"), Status, Code.IsEmpty() ? TEXT("which is not an answer of Questlog") : *Answer);
		if (bPicture || (Step == EStep::Room && Status >= 500)) return NotUploaded(Why);
		// Delays a report that a proxy rejects, for example because of its text. Later calls are sent first.
		if (bRejected && Code.IsEmpty() && Current.EndsWith(TEXT("reports"))) MoveToEnd(TEXT(""));
		Failed(Why);
	}

	/** Delays a report whose screenshot fails. Leaves out the screenshot after three attempts. */
	void NotUploaded(const FString& Why)
	{
		UploadUrl.Empty();
		UE_LOG(LogTemp, Warning, TEXT("the screenshot of a report was not uploaded: %s"), *Why);
		if (Current.EndsWith(TEXT(".retry.retry.reports"))) IFileManager::Get().Delete(*PictureOf(Current));
		else MoveToEnd(TEXT("retry."));
	}

	/** Continues with the next step. Leaves a rejected screenshot out of its report. */
	void Done(const FString& Answer, bool bStored)
	{
		Reached();
		TSharedPtr<FJsonObject> Room;
		if (Step == EStep::Call)
		{
			IFileManager::Get().Delete(*(Folder / Current));
			IFileManager::Get().Delete(*PictureOf(Current));
		}
		else if (Step == EStep::Room && bStored && FJsonSerializer::Deserialize(TJsonReaderFactory<>::Create(Answer), Room) && Room.IsValid())
		{
			UploadUrl = Room->GetStringField(TEXT("uploadUrl"));
			UploadId = Room->GetStringField(TEXT("uploadId"));
		}
		else
		{
			FString Text;
			FFileHelper::LoadFileToString(Text, *(Folder / Current));
			About.Add(Field(TEXT("uploadId"), Quoted(UploadId)));
			if (bStored) Write(Current, Text.Left(Text.Len() - 1) + TEXT(",\"attachments\":[") + Object(About) + TEXT("]}"));
			IFileManager::Get().Delete(*PictureOf(Current));
			UploadUrl.Empty();
		}
		Flush();
	}

	/** Logs the first failure, and later failures at most once per minute. */
	void Failed(const FString& Why)
	{
		UploadUrl.Empty();
		const double Now = FPlatformTime::Seconds();
		if (bStopped) return;
		if (FailingSince == 0) FailingSince = Now;
		if (Now < NextWarning) return;
		NextWarning = Now + 60;
		bWarned = true;
		UE_LOG(LogTemp, Warning, TEXT("cannot reach %s: %s; %d calls wait"), *Url, *Why, Queued().Num());
	}

	void Reached()
	{
		if (bWarned) UE_LOG(LogTemp, Display, TEXT("reached %s again after %d s; %d calls waited"), *Url, int32(FPlatformTime::Seconds() - FailingSince), Queued().Num());
		bWarned = false;
		FailingSince = 0;
	}

	void Check(bool bRight, const TCHAR* Wrong)
	{
		if (bRight) return;
		bStopped = true;
		UE_LOG(LogTemp, Error, TEXT("Questlog sends nothing: %s"), Wrong);
	}

	/** Returns the files of the calls in their order. A file name has a number, the Idempotency-Key, and the kind of the call. */
	TArray<FString> Queued(const TCHAR* Pattern = TEXT("*.*s")) const
	{
		TArray<FString> Files;
		IFileManager::Get().FindFiles(Files, *(Folder / Pattern), true, false);
		Files.Sort();
		return Files;
	}

	FString NewFile(const TCHAR* Kind) { return FString::Printf(TEXT("%012lld.%s.%s"), ++FileNumber, *NewKey(), Kind); }

	FString PictureOf(const FString& File) const { return Folder / FPaths::ChangeExtension(File, TEXT("png")); }

	/** Writes a file atomically. */
	void Write(const FString& File, const FString& Text)
	{
		const FString Path = Folder / File, Part = Path + TEXT(".tmp");
		if (HasRoom(Text.Len())) Saved(FFileHelper::SaveStringToFile(Text, *Part, FFileHelper::EEncodingOptions::ForceUTF8WithoutBOM)
			&& IFileManager::Get().Move(*Path, *Part));
	}

	/** Drops the oldest events of a full queue. Returns false if the new call still does not fit. */
	bool HasRoom(int64 Bytes)
	{
		for (const FString& File : Queued(TEXT("*.*"))) Bytes += IFileManager::Get().FileSize(*(Folder / File));
		for (const FString& File : Queued(TEXT("*.events")))
		{
			if (Bytes <= MaxQueueBytes) break;
			if (File == Current || File == Batch) continue;
			Bytes -= IFileManager::Get().FileSize(*(Folder / File));
			IFileManager::Get().Delete(*(Folder / File));
			UE_LOG(LogTemp, Warning, TEXT("the queue is full: the oldest events are dropped"));
		}
		return Saved(Bytes <= MaxQueueBytes);
	}

	static bool Saved(bool bSaved)
	{
		if (!bSaved) UE_LOG(LogTemp, Warning, TEXT("not written: the queue or the disk is full"));
		return bSaved;
	}

	/** Later calls are sent first. The file name contains "retry." for each failure of the screenshot. */
	void MoveToEnd(const FString& Retry)
	{
		const FString File = NewFile(*(Retry + Current.Mid(50)));
		if (IFileManager::Get().FileExists(*PictureOf(Current))) IFileManager::Get().Move(*PictureOf(File), *PictureOf(Current));
		IFileManager::Get().Move(*(Folder / File), *(Folder / Current));
	}

	/** Returns the code of a problem document of Questlog. Returns an empty string for any other response. */
	static FString CodeOf(const FString& Answer)
	{
		FString Rest, Code;
		Answer.Split(TEXT("\"urn:questlog:problem:"), nullptr, &Rest);
		Rest.Split(TEXT("\""), &Code, nullptr);
		return Code;
	}

	static FString Object(const TArray<FString>& Fields) { return TEXT("{") + FString::Join(Fields, TEXT(",")) + TEXT("}"); }

	static FString Field(const FString& Name, const FString& Json) { return Quoted(Name) + TEXT(":") + Json; }

	static FString Quoted(const FString& Text)
	{
		FString Json;
		for (const TCHAR Char : Text)
		{
			if (Char < 32 || Char == '"' || Char == '\\') Json += FString::Printf(TEXT("\\u%04x"), uint32(Char));
			else Json.AppendChar(Char);
		}
		return TEXT("\"") + Json + TEXT("\"");
	}

	static FString NewId() { return FGuid::NewGuid().ToString(EGuidFormats::DigitsWithHyphensLower); }

	/** Returns a UUIDv7. */
	static FString NewKey()
	{
		const FDateTime Now = FDateTime::UtcNow();
		const FString Time = FString::Printf(TEXT("%012llx"), Now.ToUnixTimestamp() * 1000 + Now.GetMillisecond());
		return Time.Left(8) + TEXT("-") + Time.Mid(8) + TEXT("-7") + NewId().Mid(15, 4) + TEXT("8") + NewId().Mid(20);
	}

	inline static const TArray<FString> Stops = { TEXT("unauthorized"), TEXT("forbidden"), TEXT("suspended") };
	/** Problem codes that do not reject the call itself: a wrong server, a change by a proxy, or too many requests. */
	inline static const TArray<FString> Waits = { TEXT("not_found"), TEXT("method_not_allowed"), TEXT("misdirected_request"),
		TEXT("unsupported_media_type"), TEXT("request_timeout"), TEXT("rate_limited") };
	const FString Session = NewId(), Url, Token, Folder;
	FString Batch, Current, UploadUrl, UploadId;
	TArray<FString> About;
	FHttpRequestPtr Sending;
	EStep Step = EStep::Call;
	int64 FileNumber = 0;
	int32 Sequence = 0, BatchEvents = 0;
	bool bStopped = false, bWarned = false;
	double NotBefore = 0, FailingSince = 0, NextWarning = 0;
};
