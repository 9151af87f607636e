package history

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/pkg/events"
)

// Whole returns messages with what is stored apart in its place. They are the caller's own.
func Whole(ctx context.Context, blobs Getter, all []events.Message) ([]events.Message, error) {
	out := make([]events.Message, 0, len(all))
	for _, m := range all {
		if m.Role != events.RoleUser && m.Role != events.RoleAssistant && m.Role != events.RoleTool {
			return nil, fmt.Errorf("message of an unknown role %.20q", m.Role)
		}
		raw, text := []byte(m.Raw), []byte(m.Content)
		if err := fetch(ctx, blobs, "raw form", m.RawRef, &raw); err != nil {
			return nil, err
		}
		if err := fetch(ctx, blobs, "content", m.ContentRef, &text); err != nil {
			return nil, err
		}
		m.Raw, m.Content, m.RawRef, m.ContentRef = raw, string(text), nil, nil
		m.Calls, m.Results = slices.Clone(m.Calls), slices.Clone(m.Results)
		for i, c := range m.Calls {
			input := []byte(c.Input)
			if err := fetch(ctx, blobs, "arguments", c.InputRef, &input); err != nil {
				return nil, err
			}
			m.Calls[i].Input, m.Calls[i].InputRef = input, nil
		}
		out = append(out, m)
	}
	return out, nil
}

// fetch gets what is stored apart of a message, where something is.
func fetch(ctx context.Context, blobs Getter, what string, ref *events.Ref, dst *[]byte) error {
	if ref == nil {
		return nil
	}
	b, err := blobs.Get(ctx, *ref)
	if err != nil {
		return fmt.Errorf("%s of a message: %w", what, err)
	}
	*dst = b
	return nil
}

// MaxMessages is about how much of a history a model with a large context window is told, in bytes: a hundred thousand
// tokens.
const MaxMessages = 400 << 10

// Window is how many bytes of a history a model is told whose context window has so many tokens, 0 for one that is not
// known: as many bytes as the window has tokens is about a quarter of it.
func Window(window int) int64 {
	if window <= 0 {
		window = prompt.UnknownWindow
	}
	return int64(min(MaxMessages, window))
}

// Tokens estimates what messages take of the window.
func Tokens(all []events.Message) int {
	n := 0
	for _, m := range all {
		n += prompt.Tokens(m.Content)
		for _, c := range m.Calls {
			n += prompt.Tokens(c.Name) + prompt.Tokens(string(c.Input))
		}
		for _, res := range m.Results {
			n += prompt.Tokens(res.Output)
		}
	}
	return n
}

// ToMessages returns what a model is told of a history in a number of bytes: the newest messages, in whole parts where
// the newest part fits, else from a user's message or a turn of that part on, with what is larger than an eighth of the
// limit shortened. Where something is left out, the first message says so. It is the same for the same reference and
// limit.
func ToMessages(ctx context.Context, blobs Getter, newest *events.Ref, limit int64) ([]events.Message, error) {
	var size int64
	asked := false
	parts, more, err := Load(ctx, blobs, newest, func(p events.Part) bool {
		size += Size(p)
		first := !asked
		asked = true
		return !first && size > limit
	})
	if err != nil {
		return nil, err
	}
	all, err := Whole(ctx, blobs, Messages(parts))
	if err != nil {
		return nil, err
	}
	all, cut := newestOf(all, limit)
	if (more || cut) && len(all) > 0 {
		all[0].Content = strings.TrimSpace("(What was said before this in the session is left out: it is too long.)\n\n" +
			all[0].Content)
	}
	return all, nil
}

// newestOf is what has room of messages, the newest first; cut is true where something is missing at their beginning.
// What is left begins with a user's message, and each call has its result.
func newestOf(all []events.Message, limit int64) (rest []events.Message, cut bool) {
	if sizeOf(all) <= limit {
		return all, false
	}
	for i := range all {
		shorten(&all[i], int(limit/8))
	}
	from, size := len(all), int64(0)
	for i := len(all) - 1; i >= 0; i-- {
		if size += sizeOf(all[i : i+1]); size > limit {
			break
		}
		if all[i].Role != events.RoleTool { // never without the calls that it answers
			from = i
		}
	}
	if rest = all[from:]; from == 0 || len(rest) > 0 && rest[0].Role == events.RoleUser {
		return rest, from > 0
	}
	return append([]events.Message{{Role: events.RoleUser}}, rest...), true
}

// shorten crops what is long in a message. A provider's own form of it goes with the whole text alone.
func shorten(m *events.Message, most int) {
	crop := func(text string) string {
		if len(text) <= most {
			return text
		}
		return strings.ToValidUTF8(text[:most*2/3], "") + "\n... left out ...\n" +
			strings.ToValidUTF8(text[len(text)-most/3:], "")
	}
	if len(m.Raw) > most || len(m.Content) > most {
		m.Raw, m.Provider = nil, ""
	}
	m.Content = crop(m.Content)
	for i, r := range m.Results {
		m.Results[i].Output = crop(r.Output)
	}
	for i, c := range m.Calls {
		if len(c.Input) > most {
			m.Calls[i].Input = []byte(`{"left_out":"the arguments were too long"}`)
			m.Raw, m.Provider = nil, ""
		}
	}
}

func sizeOf(all []events.Message) (n int64) {
	for _, m := range all {
		n += int64(len(m.Content))
		for _, c := range m.Calls {
			n += int64(len(c.Name) + len(c.Input))
		}
		for _, r := range m.Results {
			n += int64(len(r.Output))
		}
	}
	return n
}
