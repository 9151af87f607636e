package localstore

import "context"

// Damage puts other bytes in the place of an object, as no one could through the port.
func (s *Station) Damage(sha256 string, data []byte) error {
	return s.store.write(context.Background(), func(t *tx) error { return putObject(t, sha256, "", data) })
}

// Remove removes an object, as only a Fallback does.
func (s *Station) Remove(sha256 string) error {
	return s.store.write(context.Background(), func(t *tx) error { return t.remove(objectsBucket, []byte(sha256)) })
}

// LocalSeq is the first position of a local store.
const LocalSeq = localSeq

// IsLocal reports whether a position is one of a local store.
func IsLocal(seq uint64) bool { return isLocal(seq) }

// Keys counts those of a bucket.
func (s *Station) Keys(b string) (n int, err error) {
	err = s.store.view(context.Background(), func(t *tx) error {
		return t.scan(bucket(b), nil, nil, func([]byte, []byte) error { n++; return nil })
	})
	return n, err
}

// Alarms counts the timers that have not fired.
func (s *Station) Alarms() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.alarms)
}
