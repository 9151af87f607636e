package git

// CheckAddress reports whether a text can be the address of a remote: by https, ssh or another protocol that Config may
// allow, and without a user's secret in it. The error is ErrName, and says nothing of what stands before an @.
func CheckAddress(address string) error {
	_, err := parseRemote(address)
	return err
}
