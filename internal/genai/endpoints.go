package genai

import (
	"strings"

	"driftline/internal/rows"
)

// endpointSign tells the requests that ask a model by their path, which is all that an
// HTTP span says of them.
type endpointSign struct {
	// ending ends the path; within it must be part of the host or the path, since words like
	// messages are also what others call their resources.
	ending, within string
	kind           string
}

// modelEndpoints are the paths of providers' APIs, from their public references: OpenAI
// (which Azure, Mistral, Groq, DeepSeek, OpenRouter, vLLM and LiteLLM follow), Anthropic,
// Gemini and Vertex AI, Bedrock, Cohere. The first that fits decides.
var modelEndpoints = []endpointSign{
	{"/chat/completions", "", rows.KindChat},
	{"/v1/completions", "", rows.KindCompletion},
	{"/completions", "/deployments/", rows.KindCompletion},
	{"/v1/responses", "openai", rows.KindChat},
	{"/openai/responses", "", rows.KindChat},
	{"/v1/embeddings", "", rows.KindEmbeddings},
	{"/embeddings", "/deployments/", rows.KindEmbeddings},
	{"/v1/messages", "anthropic", rows.KindChat},
	{":rawPredict", "anthropic", rows.KindChat},
	{":streamRawPredict", "anthropic", rows.KindChat},
	{":generateContent", "", rows.KindGenerate},
	{":streamGenerateContent", "", rows.KindGenerate},
	{":embedContent", "", rows.KindEmbeddings},
	{":batchEmbedContents", "", rows.KindEmbeddings},
	{"/converse", "bedrock", rows.KindChat},
	{"/converse-stream", "bedrock", rows.KindChat},
	{"/v1/chat", "cohere", rows.KindChat},
	{"/v2/chat", "cohere", rows.KindChat},
	{"/v1/embed", "cohere", rows.KindEmbeddings},
	{"/v2/embed", "cohere", rows.KindEmbeddings},
}

// modelKind is the kind of model call that a request to p is, "" for any other request.
func (p place) modelKind() string {
	for i := range modelEndpoints {
		s := &modelEndpoints[i]
		if strings.HasSuffix(p.url, s.ending) && (s.within == "" || strings.Contains(p.url, s.within) || strings.Contains(p.server, s.within)) {
			return s.kind
		}
	}
	return ""
}

// endpointLast are the last bytes of the endings.
var endpointLast = func() (last firstBytes) {
	for i := range modelEndpoints {
		e := modelEndpoints[i].ending
		last[e[len(e)-1]] = true
	}
	return last
}()

// mayCallModel says whether any text of s ends as a model's endpoint does. It spares other
// spans, which are most, a look at their keys.
func mayCallModel(s *Span) bool {
	for i := range s.Attrs {
		text := s.Attrs[i].Value.Str
		if strings.IndexByte(text, '/') < 0 {
			continue
		}
		if k := strings.IndexByte(text, '?'); k >= 0 {
			text = text[:k]
		}
		if text == "" || !endpointLast[text[len(text)-1]] {
			continue
		}
		for k := range modelEndpoints {
			if strings.HasSuffix(text, modelEndpoints[k].ending) {
				return true
			}
		}
	}
	return false
}

// CallsModel says whether s is an HTTP client's request to a known endpoint of a model,
// by its path alone.
func (o *Options) CallsModel(s *Span) bool {
	if s.Kind != KindClient || !mayCallModel(s) {
		return false
	}
	set := o.set()
	f := factsPool.Get().(*facts)
	f.read(set, s.Attrs, nil)
	n := node{Span: s, set: set, f: *f}
	calls := n.place().modelKind() != ""
	clear(f.list)
	*f = facts{list: f.list[:0]}
	factsPool.Put(f)
	return calls
}
