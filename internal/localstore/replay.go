package localstore

import (
	"context"

	"github.com/inspan/inspan/pkg/events"
)

// AnswerSoFar has answer called with the run of each watcher who asks what was said live so far, until stop is called.
func (s *Station) AnswerSoFar(answer func(run string) [][]byte) (stop func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.watched
	s.watched++
	s.answers[id] = answer
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.answers, id)
	}, nil
}

// SoFar has hear called, inside ask, with what the services at work on a run have said so far.
func (s *Station) SoFar(_ context.Context, run string,
	receive func(data []byte)) (ask func() error, stop func(), err error) {
	if err := events.CheckID("run", run); err != nil {
		return nil, nil, err
	}
	ask = func() error {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return errShut
		}
		var all []func(string) [][]byte
		for _, answer := range s.answers {
			all = append(all, answer)
		}
		s.mu.Unlock()
		for _, answer := range all {
			for _, said := range answer(run) {
				receive(said)
			}
		}
		return nil
	}
	return ask, func() {}, nil
}
