package analysis

// Version grows with every change of what Terms returns; an index made by another version is refused until it is rebuilt.
const Version = 1
