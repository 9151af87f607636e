package verify

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/approval"
)

// keygenCommand is inspan keygen.
type keygenCommand struct {
	App *app.App
}

// Keygen makes inspan keygen.
func Keygen(a *app.App) *cobra.Command {
	c := &keygenCommand{App: a}
	return &cobra.Command{
		Use: "keygen FILE", Short: "Make a key to sign answers to gates with",
		Long: `Writes an Ed25519 key to FILE, which only you may read, and its public half to FILE.pub, both as PEM. The operator puts
the public half as NAME.pub into the folder that INSPAN_APPROVER_KEYS names for the gatekeeper; from then on answers signed
with the key are recorded as those of NAME. The key is not one of NATS, and no service ever has it.`,
		Example: "  inspan keygen anna.key\n  inspan approve g-1a2b3c4d5e6f --sign anna.key", Args: app.Args(1),
		RunE: c.run,
	}
}

func (a *keygenCommand) run(_ *cobra.Command, args []string) error {
	key, err := approval.NewKey()
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	if err := key.Save(args[0]); err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(map[string]string{"key": key.ID(), "private": args[0], "public": args[0] + approval.PublicExt})
	}
	fmt.Fprintf(a.App.Out, "Key %s: %s signs and stays with you, %s%s is for the operator.\n", key.ID(), args[0], args[0],
		approval.PublicExt)
	return nil
}
