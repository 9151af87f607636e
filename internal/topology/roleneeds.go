package topology

import "github.com/inspan/inspan/pkg/events"

// Needs are the rights that a user of a station has by the table, as its account has them: separate says that the
// streams have an account of their own. ok is false for a name that is none of AllUsers.
func Needs(b Buckets, station, user string, separate bool) (u User, ok bool) {
	switch user {
	case SetupUser:
		return b.Setup(station), true
	case UpgradeUser:
		return b.Upgrade(station), true
	}
	for _, role := range events.Services() {
		if string(role) == user {
			u.Name = user
			u.Publish, u.Subscribe = b.Permissions(station, role)
			ok = true
		}
	}
	for _, o := range b.ShippedOutsiders(station) {
		if o.Name == user {
			u, ok = o, true
		}
	}
	if ok && separate {
		u = InFront(station, u)
	}
	return u, ok
}

// AllUsers are the names of the users that every station has.
func AllUsers() []string {
	names := []string{SetupUser, UpgradeUser}
	for _, role := range events.Services() {
		names = append(names, string(role))
	}
	for _, o := range (Buckets{}).ShippedOutsiders("s") {
		names = append(names, o.Name)
	}
	return names
}
