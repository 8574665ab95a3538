/* nothing: the shortest program there is, to see what starting one costs. */
int main(void)
{
	return 0;
}
