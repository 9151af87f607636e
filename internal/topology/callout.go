package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

const (
	// CalloutUser answers the server's question who a connection is that none of its users has made (auth callout). It is
	// alone in an account, and can do nothing else. What it signs, the server believes.
	CalloutUser = "callout"
	// CalloutSubject is where the server asks, in that account.
	CalloutSubject = "$SYS.REQ.USER.AUTH"
	// calloutReplies is where the server takes the answers.
	calloutReplies = "$SYS._INBOX.>"
)

// CalloutAccount is the account of the CalloutUser.
func CalloutAccount(station string) string { return "callout-" + station }

// TokenCookie names a token of a provider, as UserCookie names a user.
const TokenCookie = "inspan_token"

// CalloutAccounts renders what Accounts does, and has the server ask the CalloutUser about connections of none of the
// users: issuer is the public key of an account, whose other half signs the answers. The users here, with and without a
// key, never depend on the one who answers: a server that knows who somebody is asks about no account but that of the
// CalloutUser. It does not ask about these of the names either where the password is wrong. A server that runs cannot
// change the block, so nothing in it depends on the users, who change.
func (b Buckets) CalloutAccounts(station, issuer string, outsiders []User, password func(user string) string,
	administrators ...User) string {
	var out strings.Builder
	fmt.Fprintf(&out, "  %q: {\n    users: [\n", CalloutAccount(station))
	render(&out, User{Name: CalloutUser, Publish: []string{calloutReplies}, Subscribe: []string{CalloutSubject}},
		password)
	out.WriteString("    ]\n  }\n")
	known := []string{CalloutUser}
	for _, role := range events.Services() {
		known = append(known, string(role))
	}
	return b.accounts(station, users{administrators: administrators, outsiders: outsiders, password: password,
		callout: out.String()}) + fmt.Sprintf(
		"authorization {\n  auth_callout {\n    issuer: %s\n    account: %q\n    allowed_accounts: [%q]\n    auth_users: [%s]\n"+
			"  }\n}\n", issuer, CalloutAccount(station), CalloutAccount(station), quoted(known))
}

// quoted are texts of a list of the configuration.
func quoted(all []string) string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(out, ", ")
}

// InFront is a user as the server looks at its rights in the FrontAccount: whoever signs users in there signs these.
func InFront(station string, u User) User {
	u.Publish = slices.Clone(u.Publish)
	for i, subject := range u.Publish {
		u.Publish[i] = inFront(StreamsAccount(station), subject)
	}
	return u
}
