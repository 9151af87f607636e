package localstore

// Damage puts other bytes in the place of an object, as no one could through the port.
func (s *Station) Damage(sha256 string, data []byte) error {
	_, err := s.store.db.Exec("UPDATE blobs SET data = ? WHERE sha256 = ?", nonNil(data), sha256)
	return err
}

// LocalSeq is the first position of a local store.
const LocalSeq = localSeq

// IsLocal reports whether a position is one of a local store.
func IsLocal(seq uint64) bool { return isLocal(seq) }
