#include "Containers/Ticker.h"
#include "Engine/GameViewportClient.h"
#include "ImageUtils.h"
#include "Kismet/GameplayStatics.h"
#include "Questlog.h"
#include "UnrealClient.h"

static TSharedPtr<FQuestlog> Questlog;

void BeginTelemetry()
{
	const FString Folder = FPaths::ProjectSavedDir() / TEXT("questlog");
	Questlog = MakeShared<FQuestlog>(TEXT("https://telemetry.your-game.example"), TEXT("<ACCESS_TOKEN>"), Folder);
	Questlog->Begin(TEXT("1.4.2"), UGameplayStatics::GetPlatformName(), TEXT("player-17"));
	Questlog->Record(TEXT("checkpoint"), TEXT("{\"level\":3}"));
	FTSTicker::GetCoreTicker().AddTicker(FTickerDelegate::CreateLambda([](float) { Questlog->Flush(); return true; }), 5.0f);
	UGameViewportClient::OnScreenshotCaptured().AddLambda([](int32 Width, int32 Height, const TArray<FColor>& Colors)
	{
		TArray64<uint8> Png;
		FImageUtils::PNGCompressImageArray(Width, Height, Colors, Png);
		Questlog->Report(TEXT("Stuck in a wall"), TArray<uint8>(Png));
	});
}

void ReportBug() { FScreenshotRequest::RequestScreenshot(false); }

void EndTelemetry() { Questlog->End(); }
