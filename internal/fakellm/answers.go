package fakellm

import (
	"encoding/json"
	"fmt"
	"strings"
)

type obj = map[string]any

// word is synthetic token i.
func word(i int) string { return fmt.Sprintf("tok%d ", i) }

func words(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(word(i))
	}
	return strings.TrimSpace(b.String())
}

// event frames a value as a server-sent event, named when name is not empty.
func event(name string, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only maps of strings and numbers come here
	}
	if name != "" {
		return []byte("event: " + name + "\ndata: " + string(data) + "\n\n")
	}
	return []byte("data: " + string(data) + "\n\n")
}

// chatAnswer is POST /v1/chat/completions.
type chatAnswer struct{}

func (chatAnswer) streams() bool { return true }

func (chatAnswer) usage(q request, st Step) obj {
	return obj{"prompt_tokens": q.inputTokens, "completion_tokens": st.Tokens, "total_tokens": q.inputTokens + st.Tokens}
}

// callID is the id of an answer's tool call i.
func callID(id string, i int) string { return fmt.Sprintf("call-%s-%d", id, i) }

func (chatAnswer) toolCalls(st Step, id string) []obj {
	calls := make([]obj, len(st.Tools))
	for i, name := range st.Tools {
		calls[i] = obj{"id": callID(id, i), "type": "function", "function": obj{"name": name, "arguments": "{}"}}
	}
	return calls
}

func finishReason(st Step) string {
	if len(st.Tools) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func (c chatAnswer) plain(q request, st Step, id string, created int64) any {
	message := obj{"role": "assistant", "content": words(st.Tokens), "refusal": nil}
	if len(st.Tools) > 0 {
		message["content"] = nil
		message["tool_calls"] = c.toolCalls(st, id)
	}
	return obj{
		"id": id, "object": "chat.completion", "created": created, "model": q.Model,
		"choices": []obj{{"index": 0, "message": message, "finish_reason": finishReason(st), "logprobs": nil}},
		"usage":   c.usage(q, st),
	}
}

func (chatAnswer) chunk(q request, id string, created int64, delta obj, finish any) []byte {
	return event("", obj{
		"id": id, "object": "chat.completion.chunk", "created": created, "model": q.Model,
		"choices": []obj{{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": nil}},
	})
}

func (chatAnswer) open(request, Step, string, int64) []byte { return nil }

func (c chatAnswer) token(q request, st Step, id string, created int64, i int) []byte {
	delta := obj{"content": word(i)}
	if last := len(st.Tools) - 1; last >= 0 { // the calls come with the first token; blanks after them change nothing
		calls := []obj{{"index": last, "function": obj{"arguments": " "}}}
		if i == 0 {
			calls = c.toolCalls(st, id)
			for n, call := range calls {
				call["index"] = n
			}
		}
		delta = obj{"tool_calls": calls}
	}
	if i == 0 {
		delta["role"] = "assistant"
	}
	return c.chunk(q, id, created, delta, nil)
}

func (c chatAnswer) finish(q request, st Step, id string, created int64) []byte {
	out := c.chunk(q, id, created, obj{}, finishReason(st))
	if q.StreamOptions.IncludeUsage {
		out = append(out, event("", obj{
			"id": id, "object": "chat.completion.chunk", "created": created, "model": q.Model, "choices": []obj{}, "usage": c.usage(q, st),
		})...)
	}
	return append(out, "data: [DONE]\n\n"...)
}

// embeddingsAnswer is POST /v1/embeddings.
type embeddingsAnswer struct{}

func (embeddingsAnswer) streams() bool { return false }

func (embeddingsAnswer) plain(q request, _ Step, _ string, _ int64) any {
	data := make([]obj, q.inputs)
	for i := range data {
		// SDKs ask for base64 by default and accept plain numbers as well.
		data[i] = obj{"object": "embedding", "index": i, "embedding": []float64{0, 0.5, 1}}
	}
	return obj{"object": "list", "data": data, "model": q.Model, "usage": obj{"prompt_tokens": q.inputTokens, "total_tokens": q.inputTokens}}
}

func (embeddingsAnswer) open(request, Step, string, int64) []byte       { return nil }
func (embeddingsAnswer) token(request, Step, string, int64, int) []byte { return nil }
func (embeddingsAnswer) finish(request, Step, string, int64) []byte     { return nil }

// responsesAnswer is POST /v1/responses, as far as SDKs need it for text.
type responsesAnswer struct{}

func (responsesAnswer) streams() bool { return true }

func (responsesAnswer) response(q request, st Step, id string, created int64, done bool) obj {
	r := obj{
		"id": id, "object": "response", "created_at": created, "model": q.Model, "status": "in_progress", "output": []obj{},
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": obj{}, "parallel_tool_calls": true,
		"tool_choice": "auto", "tools": []obj{}, "temperature": 1, "top_p": 1, "usage": nil,
	}
	if done {
		r["status"] = "completed"
		r["output"] = []obj{{
			"id": "msg-" + id, "type": "message", "role": "assistant", "status": "completed",
			"content": []obj{{"type": "output_text", "text": words(st.Tokens), "annotations": []obj{}}},
		}}
		r["usage"] = obj{
			"input_tokens": q.inputTokens, "output_tokens": st.Tokens, "total_tokens": q.inputTokens + st.Tokens,
			"input_tokens_details": obj{"cached_tokens": 0}, "output_tokens_details": obj{"reasoning_tokens": 0},
		}
	}
	return r
}

func (a responsesAnswer) plain(q request, st Step, id string, created int64) any {
	return a.response(q, st, id, created, true)
}

func (a responsesAnswer) open(q request, st Step, id string, created int64) []byte {
	return event("response.created", obj{"type": "response.created", "sequence_number": 0, "response": a.response(q, st, id, created, false)})
}

func (responsesAnswer) token(_ request, _ Step, id string, _ int64, i int) []byte {
	return event("response.output_text.delta", obj{
		"type": "response.output_text.delta", "sequence_number": i + 1, "item_id": "msg-" + id, "output_index": 0, "content_index": 0, "delta": word(i),
	})
}

func (a responsesAnswer) finish(q request, st Step, id string, created int64) []byte {
	return event("response.completed", obj{
		"type": "response.completed", "sequence_number": st.Tokens + 1, "response": a.response(q, st, id, created, true),
	})
}
