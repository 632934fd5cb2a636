// Package fakellm is a local OpenAI-compatible server whose every answer is scripted: status, delays, stalls,
// resets and token pace per attempt. It exists so that real SDKs, with their real retries, can be watched against
// a known truth: the server keeps its own log of when each attempt arrived, first answered and ended.
//
// All content it sends is synthetic, and nothing of a request's content is kept or logged.
package fakellm
