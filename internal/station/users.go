package station

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// UsersFile is where a station that runs keeps the passwords of its users, in its store, for the person who runs it:
// bringing runs to it wants the rights of each service. It is removed when the station ends.
const UsersFile = "users.env"

// tellUsers writes the file, for its owner only.
func (s *Station) tellUsers() error {
	if s.cfg.Listen == "" {
		return nil // nobody could use them
	}
	var b strings.Builder
	for _, user := range slices.Sorted(maps.Keys(s.passwords)) {
		fmt.Fprintf(&b, "NATS_%s_PASSWORD=%s\n", strings.ToUpper(user), s.passwords[user].Reveal())
	}
	path := filepath.Join(s.cfg.StoreDir, UsersFile)
	s.forgetUsers() // one of a station that was killed may be anybody's to read
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("passwords of the station's users: %w", err)
	}
	if _, err := f.WriteString(b.String()); err != nil {
		return fmt.Errorf("passwords of the station's users: %w", err)
	}
	return f.Close()
}

func (s *Station) forgetUsers() {
	_ = os.Remove(filepath.Join(s.cfg.StoreDir, UsersFile)) // it is of no use to anybody any more
}
