package gitwork

// LockOf is where the lock of a tree is.
func LockOf(locks, tree string) string { return lockOf(locks, tree) }
