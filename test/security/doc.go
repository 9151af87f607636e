// Package security attacks a station on a real server with the accounts and rights that are shipped.
//
// Promises: what is expected is written down here by hand and not taken from the table that the rights are made of; the
// attacker speaks the wire protocol itself and so can say whatever can be said; a refusal counts only if the server
// said so, and harm only if it is looked for in what is stored.
package security
