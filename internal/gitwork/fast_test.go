//go:build !slow

package gitwork_test

const slow = false
