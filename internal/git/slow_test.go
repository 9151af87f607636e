//go:build slow

package git_test

const slow = true
