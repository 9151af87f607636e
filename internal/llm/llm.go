// Package llm is the port between the harness and language models.
//
// Promises: one Ask is one request to a provider, with no retry inside (the executor has the one retry layer). An
// adapter never returns a partial answer as a whole one: a stream that ends early is an Error of class Transient.
// The answer carries the provider's own bytes (Raw) beside our projection of them, so that the same assistant
// message can be sent back unchanged; SDK structs are never stored or re-serialised. Keys never appear in errors.
package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Model answers requests.
type Model interface {
	// Ask sends one request and streams pieces to sink as they come (sink may be nil). It returns an *Error for
	// everything the provider or the network refused, and ctx's error where ctx ended.
	Ask(ctx context.Context, req Request, sink Sink) (Answer, error)
}

// Sink takes the pieces of an answer in order. It must not block for long.
type Sink func(Delta)

// Delta is a piece of an answer.
type Delta struct {
	// Text or Thinking, one of them is set.
	Text, Thinking string
}

// Role of a message.
type Role string

const (
	User      Role = "user"
	Assistant Role = "assistant"
	// ToolResults holds the results of the calls of the assistant message before it, all of them.
	ToolResults Role = "tool"
)

// Request is one question to a model.
type Request struct {
	// Model is the provider's own name of it, without the "provider/" prefix.
	Model string
	// System prompt; may be empty.
	System string
	// Messages alternate as the providers want: user, assistant, tool results, assistant, ... The first is User.
	Messages []Message
	Tools    []Tool
	// MaxOutputTokens; zero means DefaultMaxOutputTokens.
	MaxOutputTokens int
	// Temperature; nil leaves it to the provider.
	Temperature *float64
	// Schema, where set, asks for an answer that is one JSON document of this JSON Schema.
	Schema json.RawMessage
	// User metadata for scripts and logs: which run, step and turn asks. Never sent to a provider.
	Meta Meta
}

// DefaultMaxOutputTokens is the limit where a request does not say.
const DefaultMaxOutputTokens = 8192

// Meta says who asks. The scripted model matches on it.
type Meta struct {
	Run, Step, Agent string
	// Turn counts from 1 within the step. Purpose is "turn", "plan" or "compaction".
	Turn    int
	Purpose string
	// Attempt counts the tries of this one turn from 1; the executor fills it. Zero reads as 1.
	Attempt int
}

// Message is one entry of the conversation.
type Message struct {
	Role Role
	// Text of a user or assistant message.
	Text string
	// Images of a user message, which stand before its text.
	Images []Image
	// Calls the assistant asked for.
	Calls []Call
	// Results of a ToolResults message, in the order of the calls.
	Results []Result
	// Raw is the provider's own form of an assistant message as returned in Answer.Raw, and Provider the name of
	// the adapter that returned it. An adapter uses Raw only where Provider is its own name, else Text and Calls.
	Raw      json.RawMessage
	Provider string
}

// Image is a picture in a user message or a result.
type Image struct {
	// MediaType is image/png, image/jpeg, image/webp or image/gif; Data the bytes of the file.
	MediaType string
	Data      []byte
	// Tokens is what it takes of the context window, as the caller estimates it; 0 where no one did.
	Tokens int
}

// Tool is what the model may ask for.
type Tool struct {
	Name, Description string
	// Input is the JSON Schema of the arguments.
	Input json.RawMessage
}

// Call is a tool call that the model asks for.
type Call struct {
	// ID is the provider's id of the call, or one made by the adapter; unique within the answer.
	ID   string
	Name string
	// Input is one JSON value. Where the provider sent text that is not JSON, the adapter passes that text as a
	// JSON string, and the tool's schema check tells the model.
	Input json.RawMessage
}

// Result answers a call.
type Result struct {
	CallID, Name string
	Output       string
	Failed       bool
	// Images are shown with Output.
	Images []Image
}

// Finish is why an answer ended, in our words.
type Finish string

const (
	// Done: a final answer. The wire word is "agent_done".
	Done Finish = "agent_done"
	// ToolUse: the model waits for the results of its calls.
	ToolUse Finish = "tool_use"
	// Length: the answer was cut at the output limit.
	Length Finish = "length"
	// Refusal: the model or its filter declined.
	Refusal Finish = "refusal"
)

// Usage counts tokens as the provider reported them, or as we guess them where it did not (Estimated).
type Usage struct {
	Input, Output int
	// CachedInput is the part of Input that came from the provider's cache.
	CachedInput int
	// CacheWrite is the part of Input that the provider put into its cache, as far as it reports that.
	CacheWrite int
	// Estimated is set where the provider reported nothing and the counts come from EstimateUsage.
	Estimated bool
}

// Answer is what the model said.
type Answer struct {
	Text, Thinking string
	Calls          []Call
	Finish         Finish
	Usage          Usage
	// Model that answered, as the provider named it.
	Model string
	// Provider is the adapter's name; Raw the provider's own bytes of the assistant message (one JSON value).
	Provider string
	Raw      json.RawMessage
}

// Class says what an error means for the next try.
type Class string

const (
	// Transient: network trouble, 5xx, overloaded, a stream cut in the middle.
	Transient Class = "transient"
	// RateLimit: 429; RetryAfter may be set.
	RateLimit Class = "rate_limit"
	// Auth: missing or wrong key, no permission, no credit.
	Auth Class = "auth"
	// Invalid: the request is wrong, or there is no such model.
	Invalid Class = "invalid"
	// TooLong: the prompt does not fit the context window.
	TooLong Class = "too_long"
)

// Remedy is what can lead to an answer after an error.
type Remedy int

const (
	// Never: the same request fails again, whatever happens to the provider.
	Never Remedy = iota
	// Wait: the request may be answered later.
	Wait
	// Repair: the request may be answered once a person has repaired the account or its key.
	Repair
)

// remedies decide for each class of error what follows; docs/outages.md explains them.
var remedies = map[Class]Remedy{Transient: Wait, RateLimit: Wait, Auth: Repair, Invalid: Never, TooLong: Never}

// RemedyOf returns what can lead to an answer after an error, and the least time to wait where the provider asked for
// it. An error that is no *Error has no remedy.
func RemedyOf(err error) (r Remedy, after time.Duration) {
	e, is := errors.AsType[*Error](err)
	if !is {
		return Never, 0
	}
	return remedies[e.Class], e.RetryAfter
}

// Error is a request that was not answered.
type Error struct {
	Class Class
	// Provider that was asked, empty where the error does not tell.
	Provider string
	// Status is the HTTP status, 0 where there was none.
	Status int
	// RetryAfter is the least time to wait, where the provider said so.
	RetryAfter time.Duration
	// Hint says what a person should do next.
	Hint string
	Err  error
}

func (e *Error) Error() string {
	s := string(e.Class)
	if e.Status != 0 {
		s = fmt.Sprintf("%s (HTTP %d)", s, e.Status)
	}
	s = fmt.Sprintf("model: %s: %v", s, e.Err)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later.
func Retryable(err error) (after time.Duration, ok bool) {
	r, after := RemedyOf(err)
	return after, r == Wait
}
