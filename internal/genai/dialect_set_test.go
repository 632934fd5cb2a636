package genai

import (
	"testing"

	"driftline/internal/genai/dialects"
)

// TestSlotsFollowMeanings holds the constants to the order of the vocabulary.
func TestSlotsFollowMeanings(t *testing.T) {
	if int(numSlots) != len(dialects.Meanings)+1 {
		t.Fatalf("%d slots for %d meanings", numSlots-1, len(dialects.Meanings))
	}
	for name, want := range map[string]slot{
		"operation": slotOperation, "openinference_kind": slotOIKind, "traceloop_kind": slotTLKind, "request_type": slotLLMType,
		"observation_type": slotLFType, "ai_operation": slotVercelOp, "kind": slotKind, "mcp_method": slotMCPMethod, "model": slotModel,
		"response_model": slotResponseModel, "provider": slotProvider, "tool": slotTool, "tool_call": slotToolCall, "tool_status": slotToolStatus,
		"tool_type": slotToolType, "agent": slotAgent, "workflow": slotWorkflow, "input_tokens": slotInputTokens, "output_tokens": slotOutputTokens,
		"cached_tokens": slotCachedTokens, "reasoning_tokens": slotReasoningTokens, "usage": slotUsageJSON, "streamed": slotStream, "ttft": slotTTFT,
		"first_token_at": slotTTFTInstant, "error_type": slotErrorType, "http_status": slotHTTPStatus, "http_method": slotHTTPMethod, "url": slotURL,
		"server_address": slotServer, "server_port": slotPort, "region": slotRegion, "rpc_system": slotRPC, "resend_count": slotResend,
		"retry_count": slotRetryCount, "attempt": slotAttempt, "max_retries": slotMaxRetries, "max_attempts": slotMaxAttempts, "timeout": slotTimeout,
		"budget": slotBudget, "deadline": slotDeadline, "received_at": slotReceived, "perceived_remaining": slotPerceived, "agent_time": slotAgentTime,
		"priority": slotPriority, "finish_reason": slotFinish, "queue_time": slotQueue, "connect_time": slotConnect, "success": slotSuccess,
		"level": slotLevel, "sample_rate": slotSampleRate, "sample_ratio": slotSampleRatio, "backoff": slotBackoff, "chunk_type": slotChunkType,
	} {
		if slotOf[name] != want {
			t.Errorf("%s is slot %d, want %d", name, slotOf[name], want)
		}
	}
	for _, c := range dialects.Classes {
		if _, ok := verdicts[c.Name]; !ok {
			t.Errorf("class %s has no verdict", c.Name)
		}
	}
	for _, u := range dialects.Units {
		if _, ok := units[u.Name]; !ok {
			t.Errorf("unit %s has no size", u.Name)
		}
	}
	for _, e := range dialects.EventMeanings {
		if _, ok := eventChunks[e.Name]; !ok {
			t.Errorf("event meaning %s has no effect", e.Name)
		}
	}
}
