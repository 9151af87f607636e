package bwrap

import (
	"maps"
	"os"
	"slices"
	"strconv"
)

// etcShown is what of /etc programs need to start, to name users, and to check certificates. Of /etc/ssl never the
// whole: its private directory holds keys.
var etcShown = [...]string{
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/nsswitch.conf",
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/ca-certificates.conf",
	"/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/ca-trust/extracted",
	"/etc/localtime", "/etc/mime.types", "/etc/protocols", "/etc/services", "/etc/magic",
}

// etcMade are small files made for the sandbox instead of the machine's own, by their paths.
var etcMade = map[string]string{
	"/etc/passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:" + user + ":" + user + ":agent:" + homeInside +
		":/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
	"/etc/group":    "root:x:0:\nagent:x:" + user + ":\nnogroup:x:65534:\n",
	"/etc/hosts":    "127.0.0.1 localhost inspan\n::1 localhost\n",
	"/etc/hostname": "inspan\n",
}

// maxGiven is the most bytes of a file that is given and not mounted.
const maxGiven = 256 << 10

// gift is a small file of /etc whose text each command is given: a mount takes longer.
type gift struct {
	// path of the file, on this machine and inside.
	path string
	// made is its text where it is not that of this machine.
	made string
}

// showEtc returns how what commands see of /etc is put there, and what they are given with it.
func showEtc(network bool) (args []string, given []gift) {
	give := func(g gift) {
		args = append(args, "--file", strconv.Itoa(firstGiven+len(given)), g.path)
		given = append(given, g)
	}
	names := etcShown[:]
	if network {
		names = append(slices.Clone(names), "/etc/resolv.conf")
	}
	for _, path := range names {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() <= maxGiven {
			give(gift{path: path})
		} else {
			args = append(args, "--ro-bind-try", path, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(etcMade)) {
		give(gift{path: path, made: etcMade[path]})
	}
	return args, given
}
