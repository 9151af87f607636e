package mailbox

// Refused says why something may not be. Code is stable for programs.
type Refused struct{ Code, Reason, Hint string }

func (r *Refused) Error() string { return r.Reason + ": " + r.Hint }

// Codes of refusals.
const (
	// Unknown means that the address is not registered, Exists that it is.
	Unknown = "unknown_address"
	Exists  = "address_exists"
	// Full means that too much waits in the mailbox, TooMany that the sender sent too much in a minute.
	Full    = "mailbox_full"
	TooMany = "mail_rate"
	// UnknownRole means that no file of roles has the role.
	UnknownRole = "unknown_role"
	// BadKind means that the address does not take such a typed message.
	BadKind = "bad_kind"
	// NoInterrupt means that the agent takes no mail of this sender that interrupts it.
	NoInterrupt = "no_interrupt"
	// BadMove means that an address of this form has no such thing.
	BadMove = "bad_move"
)
