package operator

import (
	"context"
	"fmt"

	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// KeyChain reads from the log which keys of anchors of a station were replaced, in order; none where none was.
func KeyChain(ctx context.Context, c *client.Client) ([]keychain.Link, error) {
	o, err := of(c)
	if err != nil {
		return nil, err
	}
	journal := o.st.JournalFor(events.KeysAggregate)
	last, there, err := journal.Last(ctx, events.KeysID)
	if err != nil {
		return nil, fmt.Errorf("read the log of keys: %w", err)
	}
	var chain []keychain.Link
	var s keychain.State
	for after := uint64(0); there; {
		records, more, err := journal.Read(ctx, events.KeysID, after)
		if err != nil {
			return nil, fmt.Errorf("read the log of keys: %w", err)
		}
		for _, r := range records {
			after = r.Seq
			if s, err = keychain.Aggregate().Fold(s, events.KeysID, r); err != nil {
				return nil, fmt.Errorf("the log of keys is damaged at position %d: %w", r.Seq, err)
			}
			chain = append(chain, keychain.Link{KeyLink: s.Links[len(s.Links)-1], Seq: r.Seq})
		}
		if !more && after >= last.Seq {
			return chain, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return chain, nil
}
