package jet

// MaxAgain is for tests.
const MaxAgain = maxAgain
