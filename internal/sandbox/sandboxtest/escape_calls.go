package sandboxtest

// named are system calls that name a process outside, whose user is the sandbox's, as programs of Perl that say escaped
// where the kernel let them through. $v is the process, call(NAME, ...) makes a call and ok(...) reports one that
// succeeded.
var named = map[string]string{
	"prlimit64":            `ok(call("PRLIMIT", $v, 7, pack("QQ", 64, 64), 0))`,
	"prlimit64, to read":   `$old = "\0" x 16; ok(call("PRLIMIT", $v, 7, 0, $old))`,
	"kcmp":                 `ok(call("KCMP", $v, $v, 1, 0, 0))`,
	"process_vm_readv":     `$b = "\0" x 8; ok(call("READV", $v, iov($b), 1, pack("QQ", $ENV{ADDRESS}, 8), 1, 0))`,
	"process_vm_writev":    `$b = "\0" x 8; ok(call("WRITEV", $v, iov($b), 1, pack("QQ", $ENV{ADDRESS}, 8), 1, 0))`,
	"process_madvise":      `$f = call("PIDFD", $v, 0); ok(call("MADVISE", $f, pack("QQ", $ENV{ADDRESS}, 4096), 1, 20, 0))`,
	"process_mrelease":     `$f = call("PIDFD", $v, 0); reached(call("MRELEASE", $f, 0))`,
	"pidfd_send_signal":    `$f = call("PIDFD", $v, 0); ok(call("PIDFD_SIGNAL", $f, 18, 0, 0))`,
	"pidfd_getfd":          `$f = call("PIDFD", $v, 0); ok(call("GETFD", $f, 0, 0))`,
	"sched_setaffinity":    `ok(call("AFFINITY", $v, 8, pack("Q", 1)))`,
	"sched_setscheduler":   `ok(call("SCHEDULER", $v, 3, pack("i", 0)))`,
	"sched_setparam":       `ok(call("PARAM", $v, pack("i", 0)))`,
	"sched_setattr":        `ok(call("ATTR", $v, pack("LLQlLQQQ", 48, 3, 0, 5, 0, 0, 0, 0), 0))`,
	"setpriority":          `ok(call("PRIORITY", 0, $v, 5))`,
	"setpriority, a group": `ok(call("PRIORITY", 1, $v, 5))`,
	"ioprio_set":           `ok(call("IOPRIO", 1, $v, 3 << 13))`,
	"ioprio_set, a group":  `ok(call("IOPRIO", 2, $v, 3 << 13))`,
	"move_pages":           `$st = "\0" x 8; ok(call("MOVE", $v, 1, pack("Q", $ENV{ADDRESS}), 0, $st, 0))`,
	"migrate_pages":        `ok(call("MIGRATE", $v, 64, pack("Q", 1), pack("Q", 1)))`,
	"ptrace":               `ok(call("PTRACE", 0x4206, $v, 0, 0))`,
	"kill":                 `ok(kill("CONT", $v) - 1)`,
	"tkill":                `ok(call("TKILL", $v, 18))`,
	"tgkill":               `ok(call("TGKILL", $v, $v, 18))`,
	"rt_sigqueueinfo":      `ok(call("QUEUE", $v, 18, pack("iiix116", 18, 0, -1)))`,
	"rt_tgsigqueueinfo":    `ok(call("TGQUEUE", $v, $v, 18, pack("iiix116", 18, 0, -1)))`,
	"perf_event_open":      `ok(call("PERF", pack("LLQx96", 1, 112, 1), $v, -1, -1, 0))`,
	"get_robust_list":      `($h, $l) = ("\0" x 8, "\0" x 8); ok(call("ROBUST", $v, $h, $l))`,
	"prctl of a core":      `ok(call("PRCTL", 62, 2, $v, 0, 0))`,
	"oom_score_adj":        `open(F, ">", "/proc/$v/oom_score_adj") && syswrite(F, "900") && ok(0)`,
	"timerslack_ns":        `open(F, ">", "/proc/$v/timerslack_ns") && syswrite(F, "1") && ok(0)`,
	"coredump_filter":      `open(F, ">", "/proc/$v/coredump_filter") && syswrite(F, "0") && ok(0)`,
	"clear_refs":           `open(F, ">", "/proc/$v/clear_refs") && syswrite(F, "1") && ok(0)`,
}

// perl is what programs of named begin with.
const perl = `sub call { syscall($ENV{"SYS_" . shift}, map { /^-?\d+\z/ ? $_ + 0 : $_ } @_) }
sub ok { print "ESCAPED" if $_[0] >= 0 }
sub reached { print "ESCAPED" if $_[0] >= 0 || $! == 22 }
sub iov { pack("PQ", $_[0], length $_[0]) }
$v = $ENV{VICTIM} + 0; `

// changed are ways to change what is known of a file outside that belongs to the sandbox's user, or to get a program
// that gives privileges. SHOWN is a file that can be read, outside of the workspace.
var changed = map[string]string{
	"chmod of a file outside":           `chmod 666 "$SECRET" && echo ESCAPED`,
	"chmod by a relative path":          `cd "$OUTSIDE" && chmod 666 secret && echo ESCAPED`,
	"chmod by parent directories":       `chmod 666 ../outside/secret && echo ESCAPED`,
	"chmod by a link":                   `ln -s "$SECRET" s && chmod 666 s && echo ESCAPED`,
	"chmod of a directory outside":      `chmod 777 "$OUTSIDE" && echo ESCAPED`,
	"chmod of what can be read":         `chmod 666 "$SHOWN" && echo ESCAPED`,
	"chmod by a descriptor":             `perl -e 'open(F, "<", $ENV{SHOWN}) && chmod(0666, *F) && print "ESCAPED"'`,
	"chmod by a descriptor's name":      `exec 3< "$SHOWN" && chmod 666 /proc/self/fd/3 && echo ESCAPED`,
	"chmod by another descriptor name":  `exec 3< "$SHOWN" && chmod 666 /dev/fd/3 && echo ESCAPED`,
	"chmod by a process":                `exec 3< "$SHOWN" && chmod 666 /proc/$$/fd/3 && echo ESCAPED`,
	"chmod by a working directory":      `cd "$OUTSIDE" && chmod 666 /proc/self/cwd/secret && echo ESCAPED`,
	"fchmodat2 of a file outside":       `perl -e 'print "ESCAPED" if syscall($ENV{SYS_FCHMODAT2}, @{[-100, $ENV{SECRET}, 0666, 0]}) == 0'`,
	"chown of a file outside":           `chown $(id -u) "$SECRET" && echo ESCAPED`,
	"chgrp of a file outside":           `chgrp $(id -g) "$SECRET" && echo ESCAPED`,
	"lchown of a file outside":          `perl -e 'print "ESCAPED" if syscall($ENV{SYS_FCHOWNAT}, @{[-100, $ENV{SECRET}, $< + 0, -1, 0x100]}) == 0'`,
	"times of a file outside":           `touch -d @1 "$SECRET" && echo ESCAPED`,
	"times of what can be read":         `perl -e 'open(F, "<", $ENV{SHOWN}) && utime(1, 1, *F) && print "ESCAPED"'`,
	"setxattr outside":                  `perl -e 'print "ESCAPED" if syscall($ENV{SYS_SETXATTR}, @{[$ENV{SECRET}, "user.x", "y", 1, 0]}) == 0'`,
	"lsetxattr outside":                 `perl -e 'print "ESCAPED" if syscall($ENV{SYS_LSETXATTR}, @{[$ENV{SECRET}, "user.x", "y", 1, 0]}) == 0'`,
	"fsetxattr of what can be read":     `perl -e 'open(F, "<", $ENV{SHOWN}); print "ESCAPED" if syscall($ENV{SYS_FSETXATTR}, @{[fileno(F), "user.x", "y", 1, 0]}) == 0'`,
	"setxattrat outside":                `perl -e '$v = "y"; print "ESCAPED" if syscall($ENV{SYS_SETXATTRAT}, @{[-100, $ENV{SECRET}, 0, "user.x", pack("PLL", $v, 1, 0), 16]}) == 0'`,
	"file_setattr outside":              `perl -e 'print "ESCAPED" if syscall($ENV{SYS_FILE_SETATTR}, @{[-100, $ENV{SECRET}, pack("QLLLL", 0x80, 0, 0, 0, 0), 24, 0]}) == 0'`,
	"flags of what can be read":         `perl -e 'open(F, "<", $ENV{SHOWN}); $n = pack("L", 0x40); ioctl(F, 0x40086602, $n) && print "ESCAPED"'`,
	"flags, in half a word":             `perl -e 'open(F, "<", $ENV{SHOWN}); $n = pack("L", 0x40); print "ESCAPED" if syscall($ENV{SYS_IOCTL}, fileno(F), (1 << 32) | 0x40086602, $n) == 0'`,
	"a program with the user's bit":     `cp /bin/true b && chmod 4755 b && test -u b && echo ESCAPED`,
	"a program with the group's bit":    `cp /bin/true b && chmod 2755 b && test -g b && echo ESCAPED`,
	"a new file with the user's bit":    `perl -MFcntl -e 'sysopen(F, "b", O_CREAT | O_WRONLY, 04755)'; test -u b && echo ESCAPED`,
	"a new node with the user's bit":    `perl -e 'syscall($ENV{SYS_MKNODAT}, @{[-100, "b", 0104755, 0]})'; test -u b && echo ESCAPED`,
	"a file by openat2 with that bit":   `perl -e '$h = pack("QQQ", 0101, 04755, 0); syscall($ENV{SYS_OPENAT2}, @{[-100, "b", $h, 24]})'; test -u b && echo ESCAPED`,
	"a program with bits by descriptor": `cp /bin/true b && perl -e 'open(F, "<", "b") && chmod(04755, *F)'; test -u b && echo ESCAPED`,
	"shared memory of another":          `perl -e 'defined(shmget($ENV{OBJECT}, 0, 0)) && print "ESCAPED"'`,
	"datagrams to a socket's file":      `perl -MSocket -e '$n = pack("LL", 0, 0); syscall($ENV{SYS_SOCKETPAIR}, 1, 2, 0, $n) == 0 || exit; ($a) = unpack("l", $n); open(S, "+<&=", $a); send(S, "x", 0, sockaddr_un($ENV{DATAGRAMS})) && print "ESCAPED"'`,
}

// listeners are ways to what listens in the service's own process, where the network is open.
var listeners = map[string]string{
	"loopback":                `bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT" && echo ESCAPED`,
	"loopback by another":     `perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) && connect(S, sockaddr_in($ENV{PORT}, inet_aton("127.0.0.9"))) && print "ESCAPED"'`,
	"the unspecified address": `perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) && connect(S, sockaddr_in($ENV{PORT}, inet_aton("0.0.0.0"))) && print "ESCAPED"'`,
	"its own address":         `perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) && connect(S, sockaddr_in($ENV{PORT}, inet_aton($ENV{ADDRESS4}))) && print "ESCAPED"'`,
	"a mapped address":        `perl -MSocket=:all -e 'socket(S, AF_INET6, SOCK_STREAM, 0) && connect(S, pack_sockaddr_in6($ENV{PORT}, inet_pton(AF_INET6, "::ffff:127.0.0.1"))) && print "ESCAPED"'`,
	"loopback of version 6":   `perl -MSocket=:all -e 'socket(S, AF_INET6, SOCK_STREAM, 0) && connect(S, pack_sockaddr_in6($ENV{PORT}, inet_pton(AF_INET6, "::1"))) && print "ESCAPED"'`,
	"with the first data":     `perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) && defined(send(S, "x", 0x20000000, sockaddr_in($ENV{PORT}, inet_aton("127.0.0.1")))) && print "ESCAPED"'`,
	"without waiting":         `perl -MSocket -MFcntl -e 'socket(S, AF_INET, SOCK_STREAM, 0); fcntl(S, F_SETFL, O_NONBLOCK); connect(S, sockaddr_in($ENV{PORT}, inet_aton("127.0.0.1"))); $w = ""; vec($w, fileno(S), 1) = 1; select(undef, $w, undef, 3) && getpeername(S) && print "ESCAPED"'`,
	"many protocols at once":  `perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 262) && connect(S, sockaddr_in($ENV{PORT}, inet_aton("127.0.0.1"))) && print "ESCAPED"'`,
}

// leaving makes one of each object that outlives its maker, with the key in OBJECTS.
const leaving = `perl -e '$k = $ENV{OBJECTS} + 0; shmget($k, 4096, 01600); semget($k, 1, 01600); msgget($k, 01600); $n = "inspan-$k"; syscall($ENV{SYS_MQ_OPEN}, $n, 0102, 0600, 0)'`
