# Prints its argument as it is: slug.sh takes its place.
echo "$1"
