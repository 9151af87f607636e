//go:build slow

package sandboxtest

const slow = true
