package kernel

import (
	"context"
	"fmt"
	"strings"
)

// ReplayHeader of an input names the dead letter that is said again with it.
const ReplayHeader = "Inspan-Replay"

// CodeReplayed is the code of an entry of the dead-letter list that is no refusal: it says that the letter whose number
// is its token's ReplayToken was said again and taken.
const CodeReplayed = "replayed"

// ReplayToken is the token of a message that says a dead letter again, and of what the station answers to it.
func ReplayToken(no string) string { return "replay-" + no }

// replayed notes that a letter was said again and taken. Received twice it is noted twice, which says the same.
func (l *Loop) replayed(ctx context.Context, m Message, no string) error {
	if len(no) > 20 || strings.Trim(no, "0123456789") != "" {
		return nil // a stranger's header: the message itself was taken
	}
	d := DeadLetter{Subject: m.Subject(), Seq: m.Seq(), Time: m.Time(), Code: CodeReplayed,
		Reason: "letter " + no + " was said again and taken",
		Token:  ReplayToken(no)}
	if err := l.cfg.Refusals.Refuse(ctx, l.by, d); err != nil {
		return fmt.Errorf("note the replay of letter %s: %w", no, err)
	}
	return nil
}

// maxHeader is the most bytes of a header that is kept with a dead letter.
const maxHeader = 256

// readingHeaders are the headers that say how a message is to be read, as CloudEvents has them.
func readingHeaders(m Message) map[string]string {
	var kept map[string]string
	for _, name := range []string{"Content-Type", "ce-specversion", "ce-id", "ce-source", "ce-type", "ce-time",
		"ce-subject", "ce-traceparent", "traceparent"} {
		v := m.Header(name)
		if v == "" && strings.HasPrefix(name, "ce-") {
			v = m.Header("Ce-" + strings.ToUpper(name[3:4]) + name[4:])
		}
		if v == "" || len(v) > maxHeader {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[name] = v
	}
	return kept
}
