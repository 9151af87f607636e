//go:build slow

package station_test

// stride is every how many-th outage is tried: all of them.
const stride = 1
