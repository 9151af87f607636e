package claims

import (
	"fmt"
	"strings"
)

// ServerConfig is the part of a server's configuration that makes it one of this operator: with the accounts in its
// memory. It has no secret. It is empty where the operator is another's, whose servers have it already.
func (m Made) ServerConfig() string {
	if m.Operator == "" {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "operator: %s\n", m.Operator)
	for _, a := range m.Accounts {
		if a.Name == SystemName {
			fmt.Fprintf(&out, "system_account: %s\n", a.Key)
		}
	}
	out.WriteString("resolver: MEMORY\nresolver_preload: {\n")
	for _, a := range m.Accounts {
		fmt.Fprintf(&out, "  # %s\n  %s: %s\n", a.Name, a.Key, a.Token)
	}
	out.WriteString("}\n")
	return out.String()
}
