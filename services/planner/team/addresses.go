package team

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/part"
)

// directory is the addresses that are registered, by their rows.
type directory struct{ *Postmaster }

// list returns those that are registered, of one form or, with an empty form, of all.
func (p directory) list(ctx context.Context, form events.AddressForm) (all []string, err error) {
	keys, err := p.Rows.Keys(ctx, mailbox.View().Prefix)
	if err != nil {
		return nil, fmt.Errorf("list the addresses: %w", err)
	}
	slices.Sort(keys)
	for _, key := range keys {
		address, ok := events.AddressOf(strings.TrimPrefix(key, mailbox.View().Prefix))
		if is, _, err := events.ParseAddress(address); ok && err == nil &&
			(form == "" && is != events.RoleAddress || is == form) {
			all = append(all, address)
		}
	}
	return all, nil
}

// has refuses addresses of which one is not registered, or not of the form. Where the row of one is behind, as
// it is for a moment after each registration, its log decides.
func (p directory) has(ctx context.Context, form events.AddressForm, addresses ...string) error {
	if len(addresses) == 0 {
		return nil
	}
	all, err := p.list(ctx, form)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if slices.Contains(all, a) {
			continue
		}
		is, id, err := events.ParseAddress(a)
		if err != nil || is == events.RoleAddress || form != "" && is != form {
			return p.unknown(ctx, a)
		}
		switch s, err := p.Ledger.Fresh(ctx, id); {
		case err != nil:
			return fmt.Errorf("address %s: %w", a, err)
		case !s.Exists():
			return p.unknown(ctx, a)
		}
	}
	return nil
}

// unknown refuses an address and names the nearest one that is registered.
func (p directory) unknown(ctx context.Context, address string) error {
	all, err := p.list(ctx, "")
	if err != nil {
		return err
	}
	no := mailbox.NotRegistered(address)
	no.Hint = part.Meant(address, all) + no.Hint
	return no
}
