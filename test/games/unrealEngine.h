// Replaces Unreal Engine in tests: declares only the names that examples/unreal uses, with the documented signatures. The HTTP
// module sends real HTTP to a local port. The game runs frames until stdin ends and then quits.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bits/stdc++.h>

#define TEXT(Text) u##Text
#define UE_LOG(Category, Verbosity, Format, ...) std::fprintf(stderr, "%s\n", FString::Printf(Format __VA_OPT__(,) __VA_ARGS__).Utf8().c_str())

using TCHAR = char16_t;  // Differs from char, so that a text without TEXT does not compile.
using uint8 = std::uint8_t;
using int32 = std::int32_t;
using uint32 = std::uint32_t;
using int64 = std::int64_t;

template <class T>
struct TSharedPtr : std::shared_ptr<T> {
	using std::shared_ptr<T>::shared_ptr;
	TSharedPtr(std::shared_ptr<T> Other) : std::shared_ptr<T>(std::move(Other)) {}
	bool IsValid() const { return this->get() != nullptr; }
	void Reset() { this->reset(); }
};
template <class T>
using TSharedRef = TSharedPtr<T>;
template <class T>
struct TSharedFromThis : std::enable_shared_from_this<T> {};
template <class T, class... A>
TSharedRef<T> MakeShared(A&&... Args) { return std::make_shared<T>(std::forward<A>(Args)...); }

template <class F>
using TFunction = std::function<F>;

template <class T, class Size = int32>
class TArray {
	std::vector<T> All;

public:
	TArray() = default;
	TArray(std::initializer_list<T> Of) : All(Of) {}
	TArray(const T* From, Size Count) : All(From, From + Count) {}
	template <class OtherSize>
	explicit TArray(const TArray<T, OtherSize>& Other) : All(Other.begin(), Other.end()) {}
	Size Num() const { return Size(All.size()); }
	const T* GetData() const { return All.data(); }
	const T& operator[](Size At) const { return All.at(At); }
	void Add(T Item) { All.push_back(std::move(Item)); }
	bool Contains(const T& Item) const { return std::find(All.begin(), All.end(), Item) != All.end(); }
	void Sort() { std::sort(All.begin(), All.end()); }
	void RemoveAt(Size At, Size Count = 1) { All.erase(All.begin() + At, All.begin() + At + Count); }
	auto begin() const { return All.begin(); }
	auto end() const { return All.end(); }
};
template <class T>
using TArray64 = TArray<T, int64>;

class FString {
	std::u16string Chars;
	using FConvert = std::wstring_convert<std::codecvt_utf8_utf16<TCHAR>, TCHAR>;

public:
	FString() = default;
	FString(const TCHAR* Text) : Chars(Text) {}
	static FString FromUtf8(const std::string& Text) { return FConvert().from_bytes(Text).c_str(); }
	static FString FromInt(int32 Number) { return FromUtf8(std::to_string(Number)); }
	static FString Join(const TArray<FString>& Parts, const TCHAR* Between) {
		FString Whole;
		for (const FString& Part : Parts) Whole += (&Part == Parts.GetData() ? FString() : FString(Between)) + Part;
		return Whole;
	}
	template <class... A>
	static FString Printf(const TCHAR* Format, A... Args) {
		// Converts arguments from TCHAR to UTF-8, which the C library supports.
		std::deque<std::string> Kept;
		[[maybe_unused]] const auto Plain = [&](auto Arg) {
			if constexpr (std::is_same_v<decltype(Arg), const TCHAR*>) return Kept.emplace_back(FString(Arg).Utf8()).c_str();
			else return Arg;
		};
		char* Made = nullptr;
		if (asprintf(&Made, FString(Format).Utf8().c_str(), Plain(Args)...) < 0) std::abort();
		const FString Text = FromUtf8(Made);
		std::free(Made);
		return Text;
	}
	std::string Utf8() const { return FConvert().to_bytes(Chars); }
	const TCHAR* operator*() const { return Chars.c_str(); }
	bool IsEmpty() const { return Chars.empty(); }
	void Empty() { Chars.clear(); }
	int32 Len() const { return int32(Chars.size()); }
	bool Contains(const TCHAR* Text) const { return Chars.find(Text) != Chars.npos; }
	bool StartsWith(const TCHAR* Text) const { return Chars.starts_with(Text); }
	bool EndsWith(const TCHAR* Text) const { return Chars.ends_with(Text); }
	int32 Find(const TCHAR* Text) const { return int32(Chars.find(Text)); }
	bool FindLastChar(TCHAR Char, int32& Index) const { return (Index = int32(Chars.rfind(Char))) >= 0; }
	FString Replace(const TCHAR* From, const TCHAR* To) const {
		FString Whole;
		std::size_t Begun = 0;
		for (std::size_t At; (At = Chars.find(From, Begun)) != Chars.npos; Begun = At + FString(From).Chars.size()) Whole.Chars += Chars.substr(Begun, At - Begun) + To;
		return Whole + Chars.substr(Begun).c_str();
	}
	bool Split(const TCHAR* Between, FString* LeftS, FString* RightS) const {
		const std::size_t At = Chars.find(Between);
		if (At == Chars.npos) return false;
		const FString LeftText = Chars.substr(0, At).c_str(), RightText = Chars.substr(At + FString(Between).Chars.size()).c_str();
		if (LeftS != nullptr) *LeftS = LeftText;
		if (RightS != nullptr) *RightS = RightText;
		return true;
	}
	friend FString operator/(const FString& One, const FString& Other) { return One + TEXT("/") + Other; }
	friend bool operator==(const FString& One, const FString& Other) { return One.Chars == Other.Chars; }
	friend bool operator<(const FString& One, const FString& Other) { return One.Chars < Other.Chars; }
	FString Left(int32 Count) const { return Chars.substr(0, Count).c_str(); }
	FString Mid(int32 From) const { return Chars.substr(From).c_str(); }
	FString Mid(int32 From, int32 Count) const { return Chars.substr(From, Count).c_str(); }
	void AppendChar(TCHAR Char) { Chars += Char; }
	FString& operator+=(const FString& Other) { return Chars += Other.Chars, *this; }
	friend FString operator+(FString One, const FString& Other) { return One += Other; }
	auto begin() const { return Chars.begin(); }
	auto end() const { return Chars.end(); }
};

struct FCString {
	static double Atod(const TCHAR* Text) { return std::atof(FString(Text).Utf8().c_str()); }
	static int64 Atoi64(const TCHAR* Text) { return std::atoll(FString(Text).Utf8().c_str()); }
};
struct FMath {
	static int32 Min(int32 One, int32 Other) { return std::min(One, Other); }
};
struct FPlatformTime {
	static double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
};

struct FPlatformProcess {
	static void Sleep(float Seconds) { std::this_thread::sleep_for(std::chrono::duration<float>(Seconds)); }
};

struct FPaths {
	static FString ProjectSavedDir() { return TEXT("."); }
	static FString GetExtension(const FString& Path) { return Path.Mid(Dot(Path) + 1); }
	static FString ChangeExtension(const FString& Path, const FString& Extension) { return Path.Left(Dot(Path) + 1) + Extension; }

private:
	static int32 Dot(const FString& Path) {
		int32 At = 0;
		return Path.FindLastChar(TEXT('.'), At) ? At : Path.Len();
	}
};

enum { FILEWRITE_None = 0, FILEWRITE_Append = 8 };
struct IFileManager {
	static IFileManager& Get() { static IFileManager Manager; return Manager; }
	bool MakeDirectory(const TCHAR* Path, bool) { std::filesystem::create_directories(Path); return true; }
	bool FileExists(const TCHAR* Path) { return std::filesystem::exists(Path); }
	int64 FileSize(const TCHAR* Path) { return FileExists(Path) ? int64(std::filesystem::file_size(Path)) : -1; }
	bool Delete(const TCHAR* Path) { return std::filesystem::remove(Path); }
	bool Move(const TCHAR* To, const TCHAR* From) { std::filesystem::rename(From, To); return true; }
	void FindFiles(TArray<FString>& Result, const TCHAR* Pattern, bool, bool) {
		const std::filesystem::path Path(Pattern);
		std::string Name = std::regex_replace(Path.filename().string(), std::regex("\\."), "\\.");
		const std::regex Matching(std::regex_replace(Name, std::regex("\\*"), ".*"));
		for (const auto& File : std::filesystem::directory_iterator(Path.parent_path())) {
			if (std::regex_match(File.path().filename().string(), Matching)) Result.Add(FString::FromUtf8(File.path().filename().string()));
		}
	}
};

struct FFileHelper {
	enum class EEncodingOptions { AutoDetect, ForceUTF8WithoutBOM };
	static bool SaveStringToFile(const FString& Text, const TCHAR* Path, EEncodingOptions = EEncodingOptions::AutoDetect, IFileManager* = nullptr, uint32 Flags = FILEWRITE_None) {
		std::ofstream File(std::filesystem::path(Path), Flags == FILEWRITE_Append ? std::ios::app | std::ios::binary : std::ios::binary);
		return bool(File << Text.Utf8() << std::flush);
	}
	static bool SaveArrayToFile(const TArray<uint8>& Bytes, const TCHAR* Path) {
		std::ofstream File(std::filesystem::path(Path), std::ios::binary);
		return bool(File << std::string(Bytes.begin(), Bytes.end()) << std::flush);
	}
	static bool LoadFileToString(FString& Text, const TCHAR* Path) { return Text = FString::FromUtf8(Load(Path)), true; }
	static bool LoadFileToArray(TArray<uint8>& Bytes, const TCHAR* Path) {
		for (const char Byte : Load(Path)) Bytes.Add(uint8(Byte));
		return true;
	}

private:
	static std::string Load(const TCHAR* Path) {
		std::ifstream File(std::filesystem::path(Path), std::ios::binary);
		return {std::istreambuf_iterator<char>(File), {}};
	}
};

struct FDateTime {
	std::timespec Time;
	static FDateTime UtcNow() {
		FDateTime Now;
		std::timespec_get(&Now.Time, TIME_UTC);
		return Now;
	}
	int64 ToUnixTimestamp() const { return Time.tv_sec; }
	int32 GetMillisecond() const { return int32(Time.tv_nsec / 1000000); }
	FString ToIso8601() const {
		char Text[20];
		std::strftime(Text, sizeof Text, "%FT%T", std::gmtime(&Time.tv_sec));
		return FString::FromUtf8(Text) + FString::Printf(TEXT(".%03dZ"), GetMillisecond());
	}
};

enum class EGuidFormats { DigitsWithHyphensLower };
struct FGuid {
	static FGuid NewGuid() { return {}; }
	FString ToString(EGuidFormats) const {
		static std::random_device Random;
		return FString::Printf(TEXT("%08x-%04x-4%03x-8%03x-%08x%04x"), Random(), Random() >> 16, Random() >> 20, Random() >> 20, Random(), Random() >> 16);
	}
};

// Parses only the strings of a flat object, which is the response to an upload.
struct FJsonObject {
	std::string Json;
	FString GetStringField(const FString& Name) const {
		std::smatch Found;
		const std::regex Field("\"" + Name.Utf8() + "\":\"([^\"]*)\"");
		return std::regex_search(Json, Found, Field) ? FString::FromUtf8(Found[1]) : FString();
	}
};
template <class = TCHAR>
using TJsonReader = const FString;
template <class = TCHAR>
struct TJsonReaderFactory {
	static TSharedRef<TJsonReader<>> Create(const FString& Json) { return MakeShared<TJsonReader<>>(Json); }
};
struct FJsonSerializer {
	static bool Deserialize(const TSharedRef<TJsonReader<>>& Reader, TSharedPtr<FJsonObject>& OutObject) {
		OutObject = MakeShared<FJsonObject>();
		OutObject->Json = Reader->Utf8();
		return OutObject->Json.find('{') == 0;
	}
};

// Functions to call in the next frame.
inline std::vector<std::function<void()>> NextFrame;

class IHttpResponse {
	std::string Head, Body;

public:
	explicit IHttpResponse(const std::string& All) : Head(All.substr(0, All.find("\r\n\r\n") + 2)), Body(All.substr(Head.size() + 2)) {}
	int32 GetResponseCode() const { return std::stoi(Head.substr(Head.find(' '))); }
	FString GetContentAsString() const { return FString::FromUtf8(Body); }
	FString GetHeader(const FString& HeaderName) const {
		std::smatch Found;
		const std::regex Line("\r\n" + HeaderName.Utf8() + ": ([^\r]*)", std::regex::icase);
		return std::regex_search(Head, Found, Line) ? FString::FromUtf8(Found[1]) : FString();
	}
};
class IHttpRequest;
using FHttpRequestRef = TSharedRef<IHttpRequest>;
using FHttpRequestPtr = TSharedPtr<IHttpRequest>;
using FHttpResponsePtr = TSharedPtr<IHttpResponse>;

struct FHttpRequestCompleteDelegate : std::function<void(FHttpRequestPtr, FHttpResponsePtr, bool)> {
	void BindLambda(std::function<void(FHttpRequestPtr, FHttpResponsePtr, bool)> Lambda) { function::operator=(Lambda); }
	template <class T>
	void BindSP(T* Object, void (T::*Method)(FHttpRequestPtr, FHttpResponsePtr, bool)) {
		function::operator=([Weak = Object->weak_from_this(), Method](auto... Args) {
			if (const auto Alive = Weak.lock()) (Alive.get()->*Method)(Args...);
		});
	}
};

class IHttpRequest : public std::enable_shared_from_this<IHttpRequest> {
	std::atomic<bool> bDone = false;
	std::string Answer;
	std::string Verb, Host, Path, Headers, Body;
	int Port = 80;
	FHttpRequestCompleteDelegate Complete;

	std::string Exchange() const {
		const std::string Asked = Verb + " " + Path + " HTTP/1.1\r\nHost: " + Host + ":" + std::to_string(Port) + "\r\n" + Headers +
			"Content-Length: " + std::to_string(Body.size()) + "\r\nConnection: close\r\n\r\n" + Body;
		sockaddr_in Address{AF_INET, htons(std::uint16_t(Port)), {inet_addr(Host.c_str())}, {}};
		const int Socket = socket(AF_INET, SOCK_STREAM, 0);
		std::string Answer;
		if (connect(Socket, reinterpret_cast<sockaddr*>(&Address), sizeof Address) == 0) {
			// The socket blocks, so that one call sends all bytes.
			send(Socket, Asked.data(), Asked.size(), MSG_NOSIGNAL);
			char Piece[65536];
			for (ssize_t Count; (Count = recv(Socket, Piece, sizeof Piece, 0)) > 0;) Answer.append(Piece, std::size_t(Count));
		}
		close(Socket);
		return Answer;
	}

public:
	void SetVerb(const FString& InVerb) { Verb = InVerb.Utf8(); }
	void SetURL(const FString& InURL) {
		std::smatch Parts;
		const std::string Text = InURL.Utf8();
		if (!std::regex_match(Text, Parts, std::regex("http://([^:/]+):(\\d+)(/.*)"))) std::abort();
		Host = Parts[1], Port = std::stoi(Parts[2]), Path = Parts[3];
	}
	void SetHeader(const FString& HeaderName, const FString& HeaderValue) { Headers += HeaderName.Utf8() + ": " + HeaderValue.Utf8() + "\r\n"; }
	void SetContent(const TArray<uint8>& ContentPayload) { Body.assign(ContentPayload.begin(), ContentPayload.end()); }
	void SetContentAsString(const FString& ContentString) { Body = ContentString.Utf8(); }
	void SetTimeout(float) {}
	FHttpRequestCompleteDelegate& OnProcessRequestComplete() { return Complete; }
	bool ProcessRequest();
	void CancelRequest() {}
	/** Runs on the game thread. Returns false while there is no response. */
	bool Finish() {
		if (!bDone) return false;
		const bool bAnswered = Answer.find("\r\n\r\n") != std::string::npos;
		Complete(FHttpRequestPtr(shared_from_this()), bAnswered ? MakeShared<IHttpResponse>(Answer) : FHttpResponsePtr(), bAnswered);
		return true;
	}
};
struct FHttpManager {
	std::vector<FHttpRequestPtr> Requests;
	bool Tick(float) {
		for (const FHttpRequestPtr& Request : std::exchange(Requests, {})) {
			if (!Request->Finish()) Requests.push_back(Request);
		}
		return true;
	}
};
struct FHttpModule {
	static FHttpModule& Get() { static FHttpModule Module; return Module; }
	FHttpManager Manager;
	FHttpManager& GetHttpManager() { return Manager; }
	FHttpRequestRef CreateRequest() { return MakeShared<IHttpRequest>(); }
};
inline bool IHttpRequest::ProcessRequest() {
	FHttpModule::Get().Manager.Requests.push_back(FHttpRequestPtr(shared_from_this()));
	std::thread([Self = shared_from_this()] {
		Self->Answer = Self->Exchange();
		Self->bDone = true;
	}).detach();
	return true;
}

struct FTickerDelegate : std::function<bool(float)> {
	static FTickerDelegate CreateLambda(std::function<bool(float)> Lambda) { return {Lambda}; }
};
struct FTSTicker {
	std::vector<FTickerDelegate> Tickers;
	static FTSTicker& GetCoreTicker() { static FTSTicker Ticker; return Ticker; }
	void AddTicker(const FTickerDelegate& InDelegate, float) { Tickers.push_back(InDelegate); }  // Runs in every frame instead of every 5 s.
};

struct FColor {
	uint8 B, G, R, A;
};
struct FImageUtils {
	// Returns the shortest file with the signature of a PNG.
	static void PNGCompressImageArray(int32, int32, const TArray<FColor>& SrcData, TArray64<uint8>& DstData) {
		for (const char Byte : std::string("\x89PNG\r\n\x1a\n")) DstData.Add(uint8(Byte));
		for (const FColor& Pixel : SrcData) DstData.Add(Pixel.A);
	}
};
struct UGameViewportClient {
	struct FOnScreenshotCaptured {
		std::function<void(int32, int32, const TArray<FColor>&)> Bound;
		void AddLambda(decltype(Bound) Lambda) { Bound = Lambda; }
	};
	static FOnScreenshotCaptured& OnScreenshotCaptured() { static FOnScreenshotCaptured Captured; return Captured; }
};
struct FScreenshotRequest {
	static void RequestScreenshot(bool) {
		NextFrame.push_back([] { UGameViewportClient::OnScreenshotCaptured().Bound(1, 1, {FColor{1, 2, 3, 255}}); });
	}
};
struct UGameplayStatics {
	static FString GetPlatformName() { return TEXT("Linux"); }
};

// The game of the example.
void BeginTelemetry();
void ReportBug();
void EndTelemetry();

int main() {
	BeginTelemetry();
	ReportBug();
	for (pollfd Stdin{0, POLLIN, 0}; poll(&Stdin, 1, 20) == 0;) {
		for (FTickerDelegate& Tick : FTSTicker::GetCoreTicker().Tickers) Tick(0.02f);
		for (const auto& Happen : std::exchange(NextFrame, {})) Happen();
		FHttpModule::Get().GetHttpManager().Tick(0.02f);
	}
	EndTelemetry();
	// A request may still be in flight.
	std::_Exit(0);
}
