package station

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/secret"
)

// KeyFile is the file of the signing key of anchors in a store.
const KeyFile = "anchor.key"

// ownKey reads the signing key of anchors from a file that only its owner may read, and makes it the first time.
func ownKey(path string) (secret.Value, error) {
	b, err := os.ReadFile(path)
	if err == nil {
		if _, err := keychain.ParseFile(string(b)); err != nil {
			return secret.Value{}, fmt.Errorf("signing key of anchors %s: %w: bring it back from where you keep it, or, where it is lost, inspan rotate anchor-key --lost",
				path, err)
		}
		return secret.New(string(b)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return secret.Value{}, fmt.Errorf("signing key of anchors: %w", err)
	}
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // it never fails
	text := hex.EncodeToString(seed[:])
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		return secret.Value{}, fmt.Errorf("keep the signing key of anchors: %w", err)
	}
	return secret.New(text), nil
}
