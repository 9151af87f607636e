package secret

import (
	"fmt"
	"os"
	"strings"

	"github.com/inspan/inspan/internal/pattern"
)

// refPrefix begins a reference to a secret, which is a file of a folder: INSPAN_MCP_SECRETS of a toolrunner,
// INSPAN_GATEWAY_SECRETS of a gateway.
const refPrefix = "secret:"

// maxSecret is the most bytes of a secret.
const maxSecret = 4 << 10

var (
	refRule  = pattern.New(`^secret:[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$`)
	nameRule = pattern.New(`(?i)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|PRIVATE_?KEY)`)
)

// Named reports whether what has that name, as a variable of an environment, is a secret: it must not stand in a file
// that everybody may read.
func Named(name string) bool { return nameRule.MatchString(name) }

// IsRef reports whether a text is a reference to a secret, secret:NAME.
func IsRef(text string) bool { return refRule.MatchString(text) }

// FromFolder reads the file that a reference names.
func FromFolder(dir, ref string) (string, error) {
	name := strings.TrimPrefix(ref, refPrefix)
	if dir == "" {
		return "", fmt.Errorf("%s: no folder of secrets is named: set INSPAN_GATEWAY_SECRETS", ref)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("INSPAN_GATEWAY_SECRETS: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	info, err := root.Stat(name)
	if err != nil {
		return "", fmt.Errorf("%s: the folder INSPAN_GATEWAY_SECRETS has no such file", ref)
	}
	if info.Size() > maxSecret {
		return "", fmt.Errorf("%s: the file has more than %d bytes", ref, maxSecret)
	}
	b, err := root.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("%s: the file cannot be read", ref)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
