package station

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	plannertasks "github.com/inspan/inspan/services/planner/tasks"
)

// CodeDamaged is the code of what a station refuses because its store is damaged.
const CodeDamaged = plannertasks.CodeDamaged

// refuseAgain is how soon an event comes again that no one may handle on a damaged store.
const refuseAgain = time.Minute

// refuse stands in for the roles while the store is damaged: whoever asks for work learns why there is none, and
// nothing is done that the lost events might have forbidden.
func (s *Station) refuse(ctx context.Context) error {
	work := s.tasks.work()
	lost := s.Damage()
	for _, h := range topology.AllSubscriptions() {
		if len(h.Inputs) == 0 {
			continue
		}
		conn, err := s.As(ctx, h.Role)
		if err != nil {
			return err
		}
		st, err := conn.Station(s.cfg.Station)
		if err != nil {
			return err
		}
		inbox, refusals := st.Inbox(), st.Refusals()
		s.tasks.running.Go(func() {
			err := inbox.Listen(work, h.Role, 1, func(ctx context.Context, m kernel.Message) {
				turnDown(ctx, s.cfg.Log, h.Role, refusals, m, lost.ID())
			})
			if err != nil && work.Err() == nil {
				s.tasks.fail(fmt.Errorf("%s: %w", h.Role, err))
			}
		})
	}
	return nil
}

// turnDown refuses what an outsider asks for. Events and timers stay where they are.
func turnDown(ctx context.Context, log zerolog.Logger, role events.Service, refusals kernel.Refusals, m kernel.Message,
	id string) {
	_, _, _, due := events.ParseDue(m.Subject())
	sub, ofRun := events.ParseRunSubject(m.Subject())
	if due || ofRun && sub.Rest[0] == "evt" {
		_ = m.Nak(refuseAgain)
		return
	}
	err := refusals.Refuse(ctx, role, kernel.DeadLetter{Subject: m.Subject(), Seq: m.Seq(), Time: m.Time(), Run: sub.Run,
		Code:   CodeDamaged,
		Reason: "the station's store is damaged (loss " + id + "), and it takes no work until an operator has looked",
		Hint:   "inspan doctor says what is lost, docs/runbook.md what to do", DataBytes: len(m.Data()),
		Token: clipped(m.Header("Inspan-Token"))})
	if err != nil {
		log.Warn().Err(err).Str("subject", m.Subject()).Msg("dead letter not stored, will try again")
		_ = m.Nak(refuseAgain)
		return
	}
	_ = m.Ack(ctx) // one that is lost leads to another refusal
}

// tokenMost bounds the token of a sender that is echoed, in bytes.
const tokenMost = 256

func clipped(token string) string { return token[:min(len(token), tokenMost)] }
