package sqlitestore

// Damage puts other bytes in the place of an object, as nobody could through the port.
func (s *Station) Damage(sha256 string, data []byte) error {
	_, err := s.store.db.Exec("UPDATE blobs SET data = ? WHERE sha256 = ?", nonNil(data), sha256)
	return err
}
