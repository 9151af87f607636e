package team

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/part"
)

// quotaLook is how often an agent that waits for its role looks again by itself: the end of another one's run wakes it.
const quotaLook = time.Minute

// crew is the part that knows the roles of agents.
type crew struct{ *Postmaster }

// roleOf is the role of an agent as its definition has it; nil for none.
func (p crew) roleOf(ctx context.Context, definition, address string) (*events.AgentRole, error) {
	a, err := p.agents.Agent(ctx, definition)
	if errors.Is(err, kernel.ErrNotFound) {
		return nil, nil // its run is refused for that
	}
	return events.RoleOf(a.Roles, address), err
}

// wake begins the next run of an idle agent, with the model that the tier of the station has for its role, and what
// that role is now. An agent whose role has enough of them at work waits.
func (p *Postmaster) wake(ctx context.Context, s mailbox.State) (mailbox.State, error) {
	now := p.Now().UTC()
	work, err := holders{p.work}.startable(ctx, s)
	if err != nil || s.Holder != nil || mailbox.WakeIn(s, now, p.names.Wake, mailbox.Waking{Work: work}).Holder == nil {
		return s, err
	}
	all, err := p.Ledger.Fresh(ctx, events.Everyone)
	if err != nil {
		return s, fmt.Errorf("the tier: %w", err)
	}
	role, err := crew{p}.roleOf(ctx, s.Spec.Agent, s.Address)
	if err != nil {
		return s, fmt.Errorf("the role of %s: %w", s.Address, err)
	}
	if may, err := (crew{p}).admit(ctx, role, s); err != nil || !may {
		return s, err
	}
	return mailbox.WakeIn(s, now, p.names.Wake, mailbox.Waking{Tier: all.Life.Tier, Role: role, Work: work}), nil
}

// admit reports whether an idle agent may be at work. One append in the log of its role decides: of many that are woken
// at once no more are admitted than the role has.
func (p crew) admit(ctx context.Context, role *events.AgentRole, s mailbox.State) (may bool, err error) {
	if role == nil || role.Max == 0 {
		return true, nil
	}
	_, id, err := events.ParseAddress(events.RoleAddressOf(role.Name))
	if err != nil {
		return false, err
	}
	_, err = p.Change(ctx, id, func(of mailbox.State) (mailbox.State, error) {
		now := p.Now().UTC()
		var failed error
		over := func(slot events.RoleSlot) bool {
			_, id, err := events.ParseAddress(slot.Agent)
			if err == nil {
				var other mailbox.State
				if other, err = p.Ledger.Fresh(ctx, id); err == nil {
					return mailbox.Over(other, slot, now)
				}
			}
			failed = errors.Join(failed, fmt.Errorf("agent %s of the role %s: %w", slot.Agent, role.Name, err))
			return false
		}
		of, may = mailbox.Admit(mailbox.Opening(of, role.Name, now), s.Address, s.Epoch+1, role.Max, over, now)
		return of, failed
	})
	return may, err
}

// release wakes agents that wait for the role of one whose run has ended.
func (p crew) release(ctx context.Context, s mailbox.State) error {
	if s.Holder != nil || s.Life.Role == nil || s.Life.Role.Max == 0 {
		return nil
	}
	_, id, err := events.ParseAddress(events.RoleAddressOf(s.Life.Role.Name))
	if err != nil {
		return err
	}
	of, err := p.Ledger.Fresh(ctx, id)
	if err != nil || of.Life.Quota == nil {
		return err
	}
	next := slices.Clone(of.Life.Quota.Waiting)
	for _, w := range of.Life.Quota.Working { // whoever admitted it may have died before its run was begun
		next = append(next, w.Agent)
	}
	for _, address := range next {
		_, id, err := events.ParseAddress(address)
		var other mailbox.State
		if err == nil {
			other, err = p.Ledger.Fresh(ctx, id)
		}
		if err == nil && (other.Holder == nil || !other.Holder.Ready) {
			err = p.tend(ctx, id, 1)
		}
		if err != nil {
			return fmt.Errorf("agent %s of the role %s: %w", address, s.Life.Role.Name, err)
		}
	}
	return nil
}

// roleFor finds the role of a project that agents are dispatched to, among all definitions.
func (p crew) roleFor(ctx context.Context, project, name string) (*events.AgentRole, error) {
	names, err := p.agents.Names(ctx)
	if err != nil {
		return nil, err
	}
	var all []events.AgentRole
	var known []string
	for _, n := range names {
		a, err := p.agents.Agent(ctx, n)
		if err != nil && !errors.Is(err, kernel.ErrNotFound) {
			return nil, err
		}
		for _, r := range a.Roles {
			all, known = append(all, r), append(known, r.Name)
		}
	}
	if r := events.RoleOf(all, project+"/"+name+"/any"); r != nil {
		return r, nil
	}
	return nil, &mailbox.Refused{Code: mailbox.UnknownRole, Reason: fmt.Sprintf("there is no role %s/%s", project, name),
		Hint: part.Meant(project+"/"+name, known) + "a file roles/ROLE.toml or PROJECT/ROLE/role.toml in the folder of agents makes one"}
}

// of is the role that an address names.
func (p crew) of(ctx context.Context, address string) (*events.AgentRole, error) {
	project, name, ok := events.RoleIn(address)
	if !ok {
		return nil, &mailbox.Refused{Code: mailbox.UnknownRole, Reason: address + " is no role of a project",
			Hint: "send to role/ROLE/of/PROJECT"}
	}
	return p.roleFor(ctx, project, name)
}

// choose returns the agent that a message or a work item for a role goes to: one that is free, else one with a free
// name of the pool, else one with a new name. of is the log of the role, and take, where it is not nil, has the last
// word.
func (p crew) choose(ctx context.Context, of mailbox.State, address string,
	take func(agent string) (bool, error)) (string, error) {
	r, err := p.of(ctx, address)
	if err != nil {
		return "", err
	}
	project, name, _ := events.RoleIn(address)
	registered, err := directory{p.Postmaster}.list(ctx, events.AgentAddress)
	if err != nil {
		return "", err
	}
	free := func(agent string) (bool, error) {
		_, id, err := events.ParseAddress(agent)
		if err != nil {
			return false, err
		}
		s, err := p.Ledger.Fresh(ctx, id)
		if err == nil {
			s, err = holders{p.work}.atWork(ctx, s)
		}
		is := mailbox.Free(s) && (!s.Exists() || s.Spec.Agent == r.Agent)
		if err != nil || !is || take == nil {
			return is, err
		}
		return take(agent)
	}
	return mailbox.Choose(of, project+"/"+name, r.Names, registered, free)
}

// enroll registers the agent that a message to a role goes to, where it is not yet.
func (p crew) enroll(ctx context.Context, role, agent string) error {
	_, id, err := events.ParseAddress(agent)
	if err != nil {
		return err
	}
	s, err := p.Ledger.Fresh(ctx, id)
	if err != nil || s.Exists() {
		return err
	}
	r, err := p.of(ctx, role)
	if err != nil {
		return err
	}
	_, err = p.Change(ctx, id, func(s mailbox.State) (mailbox.State, error) {
		if s.Exists() {
			return s, nil // another planner was faster
		}
		spec := &events.AddressSpec{Agent: r.Agent, Session: r.Fill(r.Pattern, agent)}
		return mailbox.Steer(s, mailbox.Wish{Address: agent,
			MailControl: events.MailControl{Action: mailbox.Register, Spec: spec, By: role}}, p.Now().UTC())
	})
	return err
}

// shownOf has the rows of the agents of a role show their logs, also of one that was registered just now and has no
// row. Only a candidate before which all others are registered is ever registered.
func (p crew) shownOf(ctx context.Context, id, address string) error {
	of, err := p.Ledger.Fresh(ctx, id)
	if err != nil {
		return fmt.Errorf("role %s: %w", address, err)
	}
	var pool []string
	r, err := p.of(ctx, address)
	if _, gone := errors.AsType[*mailbox.Refused](err); err != nil && !gone {
		return err
	}
	if r != nil {
		pool = r.Names
	}
	registered, err := directory{p.Postmaster}.list(ctx, events.AgentAddress)
	if err != nil {
		return err
	}
	project, name, _ := events.RoleIn(address)
	for _, agent := range mailbox.Candidates(of, project+"/"+name, pool, registered) {
		_, id, err := events.ParseAddress(agent)
		if err != nil {
			return err
		}
		s, err := p.Change(ctx, id, func(s mailbox.State) (mailbox.State, error) { return s, nil })
		if err != nil || !s.Exists() {
			return err
		}
	}
	return nil
}

// chosen is choose as the members of a message.
func (p crew) chosen(ctx context.Context, of mailbox.State, address string) ([]string, error) {
	agent, err := p.choose(ctx, of, address, nil)
	if err != nil {
		return nil, err
	}
	return []string{agent}, nil
}

// named names the session of an agent that is registered by the pattern of its role, where nothing else does.
func (p crew) named(ctx context.Context, w *mailbox.Wish) error {
	if w.Spec.Agent == "" {
		return nil
	}
	if _, err := p.runs.Agent(ctx, w.Spec.Agent); err != nil {
		return err
	}
	r, err := p.roleOf(ctx, w.Spec.Agent, w.Address)
	if err == nil && r != nil && w.Spec.Session == "" {
		spec := *w.Spec
		spec.Session, w.Spec = r.Fill(r.Pattern, w.Address), &spec
	}
	return err
}

// addressOf is what a run says of the agent that it is.
func addressOf(s mailbox.State, h events.MailHolder) *events.AddressRef {
	env, dir := mailbox.PlaceOf(s)
	return &events.AddressRef{Address: s.Address, Epoch: h.Epoch, Fresh: mailbox.Fresh(s, h), Env: env, Dir: dir}
}
