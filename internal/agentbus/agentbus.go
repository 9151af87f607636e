// Package agentbus has the words of the Synadia Agent Protocol for NATS, version 0.3, as who answers prompts uses them:
// subjects, messages, and what a connection to NATS must do for it.
//
// Promises: each agent of a station is an instance of the micro service agents, with the station as its owner and its
// name as its session. A prompt is answered by one of all who answer. What is read here is text of strangers: what has
// no sense is an error that says what to send.
package agentbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Words of the protocol.
const (
	// Version that is spoken here.
	Version = "0.3"
	// MaxPrompt is the most bytes of a prompt, and MaxPayload the same as the protocol writes it.
	MaxPrompt  = 256 << 10
	MaxPayload = "256KB"
)

// Prompt that came.
type Prompt struct {
	// Agent is whom it is for.
	Agent string
	Data  []byte
	// ID is what its sender named it by (Nats-Msg-Id), "" where nothing.
	ID string
	// Reply is where it is answered.
	Reply string
}

// Service is what answers prompts.
type Service struct {
	Station, Program string
	// Agents are those that there are at the moment.
	Agents func(context.Context) ([]string, error)
	// Prompt answers a prompt. It is called in a goroutine of its own.
	Prompt func(context.Context, Prompt)
	// Failed is called with what no caller can be answered with.
	Failed func(error)
}

// Bus is the connection to NATS.
type Bus interface {
	// Serve registers the agents, gives prompts to the service until ctx ends, and returns when all are answered.
	Serve(ctx context.Context, s Service) error
	// Send sends a part of an answer, Fail an error with a code as HTTP has them, End the end of an answer.
	Send(reply string, chunk Chunk) error
	Fail(reply string, code int, text string) error
	End(reply string) error
	// Alive sends a sign of life, and reports whether somebody takes the answer.
	Alive(ctx context.Context, reply string) bool
	// Ask opens a subject for the answer to a question. stop must be called.
	Ask(station string) (subject string, answers <-chan []byte, stop func(), err error)
}

// Chunk is a part of an answer.
type Chunk struct {
	Type string `json:"type"`
	Data any    `json:"data"`
}

// Ack is the sign of life.
func Ack() Chunk { return Chunk{"status", "ack"} }

// Text is a part of what an agent says.
func Text(s string) Chunk { return Chunk{"response", s} }

// Run names the run that a prompt started. Callers that do not know this type leave it out.
func Run(id string) Chunk { return Chunk{"inspan.run", map[string]string{"run_id": id}} }

// Query asks the caller; the answer is sent to a subject.
func Query(id, subject, text string) Chunk {
	return Chunk{"query", map[string]string{"id": id, "reply_subject": subject, "prompt": text}}
}

// Envelope is what a prompt and an answer hold.
type Envelope struct {
	Prompt string `json:"prompt"`
	// Session of the station that the run belongs to; a field of ours.
	Session     string            `json:"session_id"`
	Attachments []json.RawMessage `json:"attachments"`
}

// Read reads an envelope: an object of JSON, or plain text.
func Read(data []byte) (e Envelope, err error) {
	if len(data) > MaxPrompt {
		return e, fmt.Errorf("the message has more than %s", MaxPayload)
	}
	if !utf8.Valid(data) {
		return e, errors.New("the message is no text")
	}
	text := strings.TrimSpace(string(data))
	if !strings.HasPrefix(text, "{") {
		e.Prompt = text
	} else if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("the message is no envelope: %w", err)
	}
	if strings.TrimSpace(e.Prompt) == "" {
		return e, errors.New("prompt missing or empty: send text, or {\"prompt\":\"text\"}")
	}
	if len(e.Attachments) > 0 {
		return e, errors.New("attachments are not taken here: put what the agent needs into the prompt")
	}
	return e, nil
}

// Decision is what an answer to a question says: the first word, and the rest of it.
func Decision(data []byte) (word, rest string, err error) {
	e, err := Read(data)
	if err != nil {
		return "", "", err
	}
	word, rest, _ = strings.Cut(strings.TrimSpace(e.Prompt), " ")
	return strings.ToLower(strings.TrimRight(word, ".,:!")), strings.TrimSpace(rest), nil
}
